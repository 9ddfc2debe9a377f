// Falcon: runs of punctuation apart, GPT-2's pattern on the rest, then digits apart and by threes.
//
// The digits are looked for after bytes became characters, so the bytes that are written as superscripts and fractions
// (0xB2 0xB3 0xB9 0xBC 0xBD 0xBE) are digits too, inside any character.

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/split_scan.h"

namespace mt::tokenizer {

namespace {

bool is_digit_byte(char byte) {
  const auto b = static_cast<unsigned char>(byte);
  return (b >= '0' && b <= '9') || b == 0xB2 || b == 0xB3 || b == 0xB9 || (b >= 0xBC && b <= 0xBE);
}
bool is_ascii_digit(char byte) { return byte >= '0' && byte <= '9'; }

enum class Run { letter, number, punctuation, space, other };

struct Char {
  Run run;
  std::uint32_t size;
};
Char char_at(const Scan& t, std::size_t i) {
  const auto byte = static_cast<unsigned char>(t.s[i]);
  const Decoded d = byte < 0x80 ? Decoded{byte, 1} : decode_utf8(t.s + i);
  const std::uint8_t bits = t.classes[d.code_point];
  if ((bits & kLetter) != 0) return {Run::letter, d.size};
  if ((bits & kNumber) != 0) return {Run::number, d.size};
  if ((bits & kSpace) != 0) return {Run::space, d.size};
  return {is_punctuation(d.code_point) ? Run::punctuation : Run::other, d.size};
}

std::size_t run_end(const Scan& t, std::size_t i, Run run) {
  while (i < t.size) {
    const Char c = char_at(t, i);
    if (c.run != run) break;
    i += c.size;
  }
  return i;
}

// The end of what GPT-2's pattern takes in one, from a place inside of it.
std::size_t word_end(const Scan& t, std::size_t i) {
  std::size_t begin = i;  // a piece may begin inside a character, behind a digit byte
  while ((static_cast<unsigned char>(t.s[begin]) & 0xC0) == 0x80) --begin;
  const Char c = char_at(t, begin);
  const std::size_t second = begin + c.size;
  if (c.run != Run::space) return run_end(t, second, c.run);
  if (t.s[i] == ' ' && second < t.size) {
    const Char next = char_at(t, second);
    if (next.run != Run::space && next.run != Run::punctuation) return run_end(t, second + next.size, next.run);
  }
  const std::size_t end = run_end(t, second, Run::space);
  if (end == t.size || char_at(t, end).run == Run::punctuation) return end;
  return but_the_last(t, begin, end);
}

std::size_t falcon_end(const Scan& t, std::size_t i) {
  const std::size_t end = word_end(t, i);
  std::size_t k = i;
  if (!is_digit_byte(t.s[i])) {
    while (k < end && !is_digit_byte(t.s[k])) ++k;
    return k;
  }
  while (k < end && is_digit_byte(t.s[k])) {
    const bool three = k + 3 <= end && is_ascii_digit(t.s[k]) && is_ascii_digit(t.s[k + 1]) && is_ascii_digit(t.s[k + 2]);
    if (three) return k == i ? k + 3 : k;
    ++k;
  }
  return k;
}

BlockStarts falcon_starts(const Scan&, std::size_t, const AsciiBlock& b) {
  const std::uint64_t letter = b.letter, digit = b.digit, space = b.space;
  const std::uint64_t punctuation = ~(letter | digit | space | b.control | b.high);
  std::uint64_t digits = digit & ~(digit << 1);
  for (std::uint64_t next = digits; next != 0; digits |= next) next = (next << 3) & digit & (digit << 1) & (digit << 2);
  // The last of a run of white space stands apart, or goes to a word where it is a blank, but not before punctuation.
  const std::uint64_t last = space & ~(space >> 1) & ~(punctuation >> 1);
  const std::uint64_t words = letter & ~(letter << 1) & ~(b.blank << 1);
  const std::uint64_t starts = digits | (punctuation & ~(punctuation << 1)) | (space & ~(space << 1)) | last | words | 1;
  const std::uint64_t foreign = b.high | b.control;
  return {starts, foreign != 0 ? std::countr_zero(foreign) - 1 : 63};
}

}  // namespace

std::size_t next_falcon(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) {
  return fill_blocks(text, position, lengths, falcon_starts, falcon_end);
}

}  // namespace mt::tokenizer
