// DeepSeek-V3: three patterns in a row, as one scan.
//
// Numbers go by threes; a stretch of Han and kana stands apart; the last pattern cuts each stretch as if it were a text of
// its own, so white space before a number or before Han ends with it. A character that pattern does not know (a control, a
// format character) leads a word, or is left over with its like.

#include "tokenizer/split_scan.h"

namespace mt::tokenizer {

namespace {

constexpr std::uint8_t kSign = kPunctuation | kSymbol, kWord = kLetter | kMark;

bool is_han_or_kana(std::uint32_t c) { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

// A stretch: numbers and the other kind of character end it.
struct Stretch {
  const Scan& t;
  bool han;

  struct At {
    std::uint8_t bits = 0;
    std::uint32_t size = 0;  // 0: the stretch ends here
  };
  At at(std::size_t i) const {
    if (i >= t.size) return {};
    const auto byte = static_cast<unsigned char>(t.s[i]);
    const Decoded d = byte < 0x80 ? Decoded{byte, 1} : decode_utf8(t.s + i);
    const std::uint8_t bits = t.classes[d.code_point];
    if ((bits & kNumber) != 0 || is_han_or_kana(d.code_point) != han) return {};
    return {bits, d.size};
  }
  std::size_t run(std::size_t i, std::uint8_t mask) const {
    for (At c = at(i); c.size > 0 && (c.bits & mask) != 0; c = at(i)) i += c.size;
    return i;
  }
};

bool is_ascii_letter(const Scan& t, std::size_t i) {
  return i < t.size && static_cast<unsigned char>((t.s[i] | 0x20) - 'a') < 26;
}

// Characters of no class: all but the last, if that one leads a word.
std::size_t leftover_end(const Stretch& stretch, std::size_t i, std::size_t second) {
  std::size_t last = i, end = second;
  Stretch::At c = stretch.at(end);
  while (c.size > 0 && (c.bits & (kWord | kSign | kSpace)) == 0) {
    last = end;
    end += c.size;
    c = stretch.at(end);
  }
  const bool word = c.size > 0 && (c.bits & kWord) != 0;
  if (!word) return end;
  return last > i ? last : stretch.run(end, kWord);
}

std::size_t deepseek_end(const Scan& t, std::size_t i) {
  const auto byte = static_cast<unsigned char>(t.s[i]);
  const Decoded first = byte < 0x80 ? Decoded{byte, 1} : decode_utf8(t.s + i);
  const std::uint8_t bits = t.classes[first.code_point];
  const std::size_t second = i + first.size;
  if ((bits & kNumber) != 0) {
    std::size_t end = second;
    for (int digits = 1; digits < 3 && end < t.size; ++digits) {
      const Scan::At d = t.at(end);
      if (!(d.bits & kNumber)) break;
      end += d.size;
    }
    return end;
  }
  const Stretch stretch{t, is_han_or_kana(first.code_point)};
  if ((bits & kWord) != 0) return stretch.run(second, kWord);
  if ((bits & kSign) != 0) {
    if (byte < 0x80 && is_ascii_letter(t, second)) {
      std::size_t end = second + 1;
      while (is_ascii_letter(t, end)) ++end;
      return end;
    }
    const std::size_t end = stretch.run(second, kSign);
    return stretch.han ? end : t.newlines(end);  // line ends are of the other kind
  }
  if ((bits & kSpace) == 0) return leftover_end(stretch, i, second);
  const Stretch::At next = stretch.at(second);
  if (byte != '\n' && byte != '\r' && next.size > 0 && (next.bits & kWord) != 0) return stretch.run(second, kWord);
  if (byte == ' ' && next.size > 0 && (next.bits & kSign) != 0) return t.newlines(stretch.run(second, kSign));
  const std::size_t run_end = stretch.run(second, kSpace), end = after_newlines(t, i, run_end);
  if (end > i) return end;
  return stretch.at(run_end).size == 0 ? run_end : but_the_last(t, i, run_end);
}

BlockStarts deepseek_starts(const Scan&, std::size_t, const AsciiBlock& b) {
  const LineStarts line = line_starts<3>(b);
  const std::uint64_t last_space = line.last_space & ~(b.digit >> 1);  // a number ends the stretch
  const std::uint64_t word = b.letter & ~(b.letter << 1) & ~((last_space | line.leading) << 1);
  return {line.starts | last_space | word | 1, known_before(b.high | b.control, line.space)};
}

}  // namespace

std::size_t next_deepseek(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) {
  return fill_blocks(text, position, lengths, deepseek_starts, deepseek_end);
}

}  // namespace mt::tokenizer
