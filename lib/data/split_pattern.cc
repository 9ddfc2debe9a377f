#include "data/split_pattern.h"

#include <array>
#include <bit>
#include <utility>

#include "base/error.h"
#include "data/ascii_block.h"
#include "data/unicode.h"

namespace mt::data {

extern const std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

extern const std::string_view kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
extern const std::string_view kO200kPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
extern const std::string_view kTekkenPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

namespace {

constexpr std::string_view kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

constexpr std::uint8_t kWordOrSpace = kLetter | kNumber | kSpace;

// One text under a scan: places are byte offsets, i.e. the first byte of a code point.
struct Scan {
  const char* s;
  std::size_t size;
  const std::uint8_t* classes;

  struct At {
    std::uint8_t bits;
    std::uint32_t size;
  };
  At at(std::size_t i) const {
    const auto byte = static_cast<unsigned char>(s[i]);
    if (byte < 0x80) return {classes[byte], 1};
    const Decoded d = decode_utf8(s + i);
    return {classes[d.code_point], d.size};
  }
  // End of the run of code points with (bits & mask) != 0 (or == 0 when !want).
  template <bool want>
  std::size_t run(std::size_t i, std::uint8_t mask) const {
    while (i < size) {
      const auto byte = static_cast<unsigned char>(s[i]);
      if (byte < 0x80) {
        if (((classes[byte] & mask) != 0) != want) return i;
        ++i;
        continue;
      }
      const Decoded d = decode_utf8(s + i);
      if (((classes[d.code_point] & mask) != 0) != want) return i;
      i += d.size;
    }
    return i;
  }
  std::size_t newlines(std::size_t i) const {
    while (i < size && (s[i] == '\n' || s[i] == '\r')) ++i;
    return i;
  }
};

// Bytes of 's 't 're 've 'm 'll 'd at s[i] == '\'', or 0.
template <bool any_case>
std::size_t contraction(const Scan& t, std::size_t i) {
  if (t.size - i < 2) return 0;
  const auto lower = [&t](std::size_t k) {
    const char c = t.s[k];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  };
  const char a = lower(i + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (t.size - i < 3) return 0;
  if (any_case && t.s[i + 1] == '\xC5' && t.s[i + 2] == '\xBF') return 3;  // U+017F folds to s
  const char b = lower(i + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

// s+(?!S) | s+ on a run of white space that starts at i: the last code point is left to what follows it.
std::size_t space_run(const Scan& t, std::size_t i, std::size_t run_end) {
  if (run_end == t.size) return run_end;
  std::size_t last = run_end - 1;
  while ((static_cast<unsigned char>(t.s[last]) & 0xC0) == 0x80) --last;
  return last > i ? last : run_end;
}

std::size_t gpt2_end(const Scan& t, std::size_t i) {
  if (t.s[i] == '\'') {
    if (const std::size_t n = contraction<false>(t, i)) return i + n;
  }
  std::size_t first = i;
  if (t.s[i] == ' ' && i + 1 < t.size) first = i + 1;
  const Scan::At c = t.at(first);
  if (c.bits & kLetter) return t.run<true>(first + c.size, kLetter);
  if (c.bits & kNumber) return t.run<true>(first + c.size, kNumber);
  if (!(c.bits & kSpace)) return t.run<false>(first + c.size, kWordOrSpace);
  return space_run(t, i, t.run<true>(i, kSpace));
}

// White space of the patterns that keep line ends apart: up to the last one of the run, else all but the last space.
std::size_t line_space_end(const Scan& t, std::size_t i, std::size_t run_end) {
  for (std::size_t k = run_end; k > i; --k) {
    if (t.s[k - 1] == '\n' || t.s[k - 1] == '\r') return k;
  }
  return space_run(t, i, run_end);
}

template <int max_digits>
std::size_t llama3_end(const Scan& t, std::size_t i) {
  const char byte = t.s[i];
  if (byte == '\'') {
    if (const std::size_t n = contraction<true>(t, i)) return i + n;
  }
  const Scan::At c = t.at(i);
  if (c.bits & kLetter) return t.run<true>(i + c.size, kLetter);
  if (c.bits & kNumber) {
    std::size_t end = i + c.size;
    for (int digits = 1; digits < max_digits && end < t.size; ++digits) {
      const Scan::At d = t.at(end);
      if (!(d.bits & kNumber)) break;
      end += d.size;
    }
    return end;
  }
  const std::size_t second = i + c.size;
  if (second < t.size && byte != '\n' && byte != '\r') {
    const Scan::At d = t.at(second);
    if (d.bits & kLetter) return t.run<true>(second + d.size, kLetter);
    if (byte == ' ' && !(d.bits & kWordOrSpace)) {
      return t.newlines(t.run<false>(second + d.size, kWordOrSpace));
    }
  }
  if (!(c.bits & kSpace)) return t.newlines(t.run<false>(second, kWordOrSpace));
  return line_space_end(t, i, t.run<true>(second, kSpace));
}

bool may_be_upper(std::uint8_t bits) { return (bits & (kLetter | kMark)) != 0 && !(bits & kLower); }
bool may_be_lower(std::uint8_t bits) { return (bits & (kLetter | kMark)) != 0 && !(bits & kUpper); }

// U*W+ at i, as a backtracking matcher finds it: the last of U* that may be lower goes to W+ if nothing follows for it.
//   gives  its end, or 0; upper_end is the end of U*
std::size_t cased_word_end(const Scan& t, std::size_t i, std::size_t& upper_end) {
  std::size_t last_lower_end = 0;
  while (i < t.size) {
    const Scan::At c = t.at(i);
    if (!may_be_upper(c.bits)) break;
    i += c.size;
    if (may_be_lower(c.bits)) last_lower_end = i;
  }
  upper_end = i;
  std::size_t end = i;
  while (end < t.size) {
    const Scan::At c = t.at(end);
    if (!may_be_lower(c.bits)) break;
    end += c.size;
  }
  return end > i ? end : last_lower_end;
}

template <int max_digits, bool contractions>
std::size_t o200k_end(const Scan& t, std::size_t i) {
  const auto with_suffix = [&t](std::size_t end) {
    if (!contractions || end >= t.size || t.s[end] != '\'') return end;
    return end + contraction<true>(t, end);
  };
  const char byte = t.s[i];
  const Scan::At c = t.at(i);
  const std::size_t second = i + c.size;
  const bool line_end = byte == '\n' || byte == '\r';
  const bool leads = !(c.bits & (kLetter | kNumber)) && !line_end, in_word = (c.bits & (kLetter | kMark)) != 0;
  std::size_t led_upper = second, upper = i;
  if (leads) {
    if (const std::size_t end = cased_word_end(t, second, led_upper)) return with_suffix(end);
  }
  if (in_word) {
    if (const std::size_t end = cased_word_end(t, i, upper)) return with_suffix(end);
  }
  if (led_upper > second) return with_suffix(led_upper);
  if (upper > i) return with_suffix(upper);
  if (c.bits & kNumber) {
    std::size_t end = second;
    for (int digits = 1; digits < max_digits && end < t.size; ++digits) {
      const Scan::At d = t.at(end);
      if (!(d.bits & kNumber)) break;
      end += d.size;
    }
    return end;
  }
  const auto tail = [&t](std::size_t end) {
    while (end < t.size && (t.s[end] == '\n' || t.s[end] == '\r' || t.s[end] == '/')) ++end;
    return end;
  };
  if (byte == ' ' && second < t.size && !(t.at(second).bits & kWordOrSpace)) {
    return tail(t.run<false>(second, kWordOrSpace));
  }
  if (!(c.bits & kSpace)) return tail(t.run<false>(second, kWordOrSpace));
  return line_space_end(t, i, t.run<true>(second, kSpace));
}

template <class End>
std::size_t fill(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths, End end_of) {
  const Scan scan{text.data(), text.size(), unicode_classes()};
  std::size_t n = 0, i = position;
  while (n < lengths.size() && i < text.size()) {
    const std::size_t end = end_of(scan, i);
    lengths[n++] = static_cast<std::uint32_t>(end - i);
    i = end;
  }
  position = i;
  return n;
}

// Bits below `count`.
std::uint64_t low_bits(int count) { return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1; }

// Which bytes of a block start a piece, and below which bit that is certain.
struct BlockStarts {
  std::uint64_t starts;
  int known;
};

// A contraction that starts a piece is one piece whatever surrounds it.
template <bool any_case>
void mark_contractions(const Scan& scan, std::size_t block, std::uint64_t quotes, std::uint64_t& starts) {
  for (quotes &= starts; quotes != 0; quotes &= quotes - 1) {
    const int q = std::countr_zero(quotes);
    const std::size_t size = contraction<any_case>(scan, block + static_cast<std::size_t>(q));
    if (size == 0 || (starts >> q & 1) == 0) continue;
    const std::uint64_t inside = (std::uint64_t{1} << size) - 2;  // its bytes but the first
    starts = (starts & ~(inside << q)) | ((inside + 2) << q);
  }
}

// Starts follow from the classes of a byte and its two neighbours.
BlockStarts gpt2_starts(const Scan& scan, std::size_t i, const AsciiBlock& b) {
  const std::uint64_t letter = b.letter, digit = b.digit, space = b.space, other = ~(letter | digit | space);
  std::uint64_t starts = (letter & ~(letter << 1)) | (digit & ~(digit << 1)) | (other & ~(other << 1));
  starts &= ~(b.blank << 1);                                // " word" starts at its blank
  starts |= (space & (~(space << 1) | ~(space >> 1))) | 1;  // a run of white space, and its last one again
  mark_contractions<false>(scan, i, b.apostrophe, starts);
  return {starts, b.high != 0 ? std::countr_zero(b.high) - 1 : 63};
}

// Here a run of white space also depends on its last newline, so a run that reaches the block's end is left whole to
// the next block.
template <int max_digits>
BlockStarts llama3_starts(const Scan& scan, std::size_t i, const AsciiBlock& b) {
  const std::uint64_t letter = b.letter, digit = b.digit, other = ~(letter | digit | b.space);
  // Newlines right behind punctuation belong to it: a carry runs through them.
  const std::uint64_t behind = b.newline & (other << 1);
  const std::uint64_t space = b.space & ~((b.newline ^ (b.newline + behind)) & b.newline);
  const std::uint64_t last_space = space & ~(space >> 1) & ~b.newline;
  std::uint64_t starts = (space & ~(space << 1)) | last_space;
  for (std::uint64_t newlines = space & b.newline; newlines != 0;) {
    const int first = std::countr_zero(newlines);
    const std::uint64_t run = space & low_bits(first + std::countr_one(space >> first)) & ~low_bits(first);
    const int last = 63 - std::countl_zero(newlines & run);
    if (last < 63) starts |= run & (std::uint64_t{2} << last);
    newlines &= ~run;
  }
  const std::uint64_t punctuation = other & ~(other << 1) & ~(b.blank << 1);
  starts |= punctuation | (letter & ~(letter << 1) & ~((last_space | punctuation) << 1));
  std::uint64_t digits = max_digits == 1 ? digit : digit & ~(digit << 1);
  for (std::uint64_t next = digits; max_digits > 1 && next != 0; digits |= next) {
    next = (next << 3) & digit & (digit << 1) & (digit << 2);
  }
  starts |= digits | 1;
  mark_contractions<true>(scan, i, b.apostrophe, starts);
  const int end = b.high != 0 ? std::countr_zero(b.high) : 64;
  const int trailing = end == 0 ? 0 : std::countl_one(space << (64 - end));
  return {starts, trailing > 0 ? end - trailing + 1 : end - 1};
}

// A pattern over blocks of 64 bytes: shifts and ands on masks in place of a branch a byte. A block begins at a piece's
// start and so needs nothing from before it; the piece at its end is left to the next block, or to the scalar scanner
// where a byte is not ASCII.
template <class Starts, class End>
std::size_t fill_blocks(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths,
                        Starts starts_of, End end_of) {
  const Scan scan{text.data(), text.size(), unicode_classes()};
  std::size_t n = 0, i = position;
  const auto put = [&](std::size_t end) {
    lengths[n++] = static_cast<std::uint32_t>(end - i);
    i = end;
  };
  while (n < lengths.size() && i < text.size()) {
    if (text.size() - i < kBlockBytes || lengths.size() - n < kBlockBytes) {
      put(end_of(scan, i));
      continue;
    }
    const AsciiBlock block = classify_block(text.data() + i);
    const BlockStarts found = starts_of(scan, i, block);
    const std::size_t begin = i;
    std::uint64_t starts = found.known <= 0 ? 0 : found.starts & low_bits(found.known) & ~std::uint64_t{1};
    for (; starts != 0; starts &= starts - 1) put(begin + static_cast<std::size_t>(std::countr_zero(starts)));
    if (i == begin || block.high != 0) put(end_of(scan, i));
  }
  position = i;
  return n;
}

}  // namespace

SplitPattern SplitPattern::from_regex(const std::string& regex) {
  SplitPattern pattern;
  pattern.regex_ = regex;
  if (regex == kGpt2Pattern) {
    pattern.kind_ = PatternKind::gpt2;
  } else if (regex == kLlama3Pattern) {
    pattern.kind_ = PatternKind::llama3;
  } else if (regex == kQwenPattern) {
    pattern.kind_ = PatternKind::qwen;
  } else if (regex == kO200kPattern) {
    pattern.kind_ = PatternKind::o200k;
  } else if (regex == kTekkenPattern) {
    pattern.kind_ = PatternKind::tekken;
  } else {
    pattern.kind_ = PatternKind::pcre;
    pattern.pcre_ = std::make_unique<PcrePattern>(regex);
  }
  return pattern;
}

SplitPattern SplitPattern::sequence(std::vector<SplitPattern> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  SplitPattern pattern;
  pattern.parts_ = std::move(parts);
  return pattern;
}

std::size_t SplitPattern::next(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) const {
  MT_CHECK(batched() && text.size() < (std::size_t{1} << 32), "kind {} text of {} bytes", static_cast<int>(kind_),
           text.size());
  switch (kind_) {
    case PatternKind::gpt2: return fill_blocks(text, position, lengths, gpt2_starts, gpt2_end);
    case PatternKind::llama3: return fill_blocks(text, position, lengths, llama3_starts<3>, llama3_end<3>);
    case PatternKind::qwen: return fill_blocks(text, position, lengths, llama3_starts<1>, llama3_end<1>);
    case PatternKind::o200k: return fill(text, position, lengths, o200k_end<3, true>);
    case PatternKind::tekken: return fill(text, position, lengths, o200k_end<1, false>);
    default: return fill(text, position, lengths, [](auto& t, auto) { return t.size; });
  }
}

void SplitPattern::split(std::string_view text, std::vector<std::uint32_t>& lengths) const {
  if (!parts_.empty()) {
    std::vector<std::uint32_t> coarse, fine{static_cast<std::uint32_t>(text.size())};
    if (text.empty()) fine.clear();
    for (const SplitPattern& part : parts_) {
      coarse.swap(fine);
      fine.clear();
      std::size_t begin = 0;
      for (const std::uint32_t n : coarse) {
        part.split(text.substr(begin, n), fine);
        begin += n;
      }
    }
    lengths.insert(lengths.end(), fine.begin(), fine.end());
    return;
  }
  if (kind_ == PatternKind::pcre) return pcre_->split(text, lengths);
  std::array<std::uint32_t, 256> some;
  std::size_t position = 0;
  while (const std::size_t n = next(text, position, some))
    lengths.insert(lengths.end(), some.begin(), some.begin() + n);
}

std::string SplitPattern::description() const {
  if (parts_.empty()) return regex_;
  std::string all;
  for (const SplitPattern& part : parts_) all += part.description() + "\n";
  return all;
}

}  // namespace mt::data
