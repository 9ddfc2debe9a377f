#pragma once
// What the hand scanners of split patterns share: a text under scan, and cutting it by blocks of 64 bytes.
//
// A scanner is two functions: where the piece that starts at a place ends (any text), and which bytes of an ASCII block
// start a piece (shifts and ands on masks in place of a branch a byte).
// Code: tokenizer/split_pattern.cc, split_cased.cc, split_deepseek.cc, split_falcon.cc. Tests: tests/tokenizer/split_pattern_test.cc.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tokenizer/ascii_block.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

inline constexpr std::uint8_t kWordOrSpace = kLetter | kNumber | kSpace;

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
      const At c = at(i);
      if (((c.bits & mask) != 0) != want) return i;
      i += c.size;
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

// Where the last code point of a run of more than one begins, i.e. what s+(?!S) leaves of it; of one its end.
inline std::size_t but_the_last(const Scan& t, std::size_t i, std::size_t run_end) {
  std::size_t last = run_end - 1;
  while ((static_cast<unsigned char>(t.s[last]) & 0xC0) == 0x80) --last;
  return last > i ? last : run_end;
}

// s+(?!S) | s+ on a run of white space that starts at i: the last code point is left to what follows it.
inline std::size_t space_run(const Scan& t, std::size_t i, std::size_t run_end) {
  return run_end == t.size ? run_end : but_the_last(t, i, run_end);
}

// The place after the last line end of [i, run_end), or i.
inline std::size_t after_newlines(const Scan& t, std::size_t i, std::size_t run_end) {
  for (std::size_t k = run_end; k > i; --k) {
    if (t.s[k - 1] == '\n' || t.s[k - 1] == '\r') return k;
  }
  return i;
}

// White space of the patterns that keep line ends apart: up to the last one of the run, else all but the last space.
inline std::size_t line_space_end(const Scan& t, std::size_t i, std::size_t run_end) {
  const std::size_t end = after_newlines(t, i, run_end);
  return end > i ? end : space_run(t, i, run_end);
}

// Bits below `count`.
inline std::uint64_t low_bits(int count) { return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1; }

// Which bytes of a block start a piece, and below which bit that is certain.
struct BlockStarts {
  std::uint64_t starts;
  int known;
};

// How far a block is certain: what stands before a byte of `foreign` by more than one byte, and what is not in the run of
// white space that reaches the end, since its last newline may be outside.
inline int known_before(std::uint64_t foreign, std::uint64_t space) {
  const int end = foreign != 0 ? std::countr_zero(foreign) : 64;
  const int trailing = end == 0 ? 0 : std::countl_one(space << (64 - end));
  return trailing > 0 ? end - trailing + 1 : end - 1;
}

// White space, punctuation and digits of the patterns that keep line ends apart; words come on top.
struct LineStarts {
  std::uint64_t starts;       // of white space, punctuation and digits
  std::uint64_t space;        // white space that is not part of punctuation's tail
  std::uint64_t absorbed;     // line ends that are
  std::uint64_t last_space;   // the last space of a run, which a word may take
  std::uint64_t leading;      // the end of the first of a run of others without a blank before it, which a word may take
};

// From the first bytes of characters to their last ones.
inline std::uint64_t last_bytes(std::uint64_t first, std::uint64_t continuation) {
  for (int i = 0; continuation != 0 && i < 3; ++i) {
    const std::uint64_t next = first << 1 & continuation;
    first = (first & ~(next >> 1)) | next;
  }
  return first;
}

template <int max_digits>
LineStarts line_starts(const AsciiBlock& b) {
  const std::uint64_t digit = b.digit, other = ~(b.letter | digit | b.space);
  // Newlines right behind punctuation belong to it: a carry runs through them.
  const std::uint64_t behind = b.newline & (other << 1);
  const std::uint64_t absorbed = (b.newline ^ (b.newline + behind)) & b.newline;
  const std::uint64_t space = b.space & ~absorbed;
  const std::uint64_t last_space = space & ~(space >> 1) & ~b.newline;
  std::uint64_t starts = space & ~(space << 1);
  for (std::uint64_t newlines = space & b.newline; newlines != 0;) {
    const int first = std::countr_zero(newlines);
    const std::uint64_t run = space & low_bits(first + std::countr_one(space >> first)) & ~low_bits(first);
    const int last = 63 - std::countl_zero(newlines & run);
    if (last < 63) starts |= run & (std::uint64_t{2} << last);
    newlines &= ~run;
  }
  const std::uint64_t punctuation = other & ~(other << 1) & ~(b.blank << 1);
  std::uint64_t digits = max_digits == 1 ? digit : digit & ~(digit << 1);
  for (std::uint64_t next = digits; max_digits > 1 && next != 0; digits |= next) {
    next = (next << 3) & digit & (digit << 1) & (digit << 2);
  }
  return {starts | punctuation | digits, space, absorbed, last_space, last_bytes(punctuation, b.continuation)};
}

// Cut `text` from `position` by a scanner's `end_of(scan, i)` alone.
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

// Cut by blocks as far as `starts_of(scan, i, block)` knows what stands in them; what is left in block.high it does not. A
// block begins at a piece's start and so needs nothing from before it; the piece at its end is left to the next block, or
// to `end_of` where a character is foreign. `wide`: characters beyond ASCII are worth a look.
template <bool wide = false, class Starts, class End>
std::size_t fill_blocks(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths,
                        Starts starts_of, End end_of) {
  const Scan scan{text.data(), text.size(), unicode_classes()};
  std::size_t n = 0, i = position;
  const auto put = [&](std::size_t end) {
    lengths[n++] = static_cast<std::uint32_t>(end - i);
    i = end;
  };
  while (n < lengths.size() && i < text.size()) {
    const bool foreign = (static_cast<unsigned char>(text[i]) & 0x80) != 0;
    if (n > 0 && lengths.size() - n < kBlockBytes) break;  // a block may need as many
    if ((!wide && foreign) || text.size() - i < kBlockBytes || lengths.size() - n < kBlockBytes) {
      put(end_of(scan, i));
      continue;
    }
    AsciiBlock block = classify_block(text.data() + i);
    const BlockStarts found = starts_of(scan, i, block);
    const std::size_t begin = i;
    std::uint64_t starts = found.known <= 0 ? 0 : found.starts & low_bits(found.known) & ~std::uint64_t{1};
    for (; starts != 0; starts &= starts - 1) put(begin + static_cast<std::size_t>(std::countr_zero(starts)));
    // A character that the block's end cuts is looked at again by the next block.
    if (i == begin || (block.high & low_bits(61)) != 0) put(end_of(scan, i));
  }
  position = i;
  return n;
}

// The scanners; needs, gives and cost as SplitPattern::next.
std::size_t next_o200k(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths);
std::size_t next_tekken(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths);
std::size_t next_deepseek(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths);
std::size_t next_falcon(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths);

}  // namespace mt::tokenizer
