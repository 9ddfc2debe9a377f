#pragma once
// Letters and signs beyond ASCII in the masks of a block, so that other scripts are cut by blocks too.
//
// White space and numbers beyond ASCII, and a character that the block's end cuts, stay foreign: what follows from them
// counts characters, not bytes.
// Code: header only. Tests: tests/tokenizer/split_pattern_test.cc.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tokenizer/ascii_block.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

// Letters known by their first byte, or first two: Cyrillic but for its rare half, Han from U+5000 on, Hangul. A bit stands
// on each first byte; characters that the block's end cuts are not among them.
struct PlainLetters {
  std::uint64_t upper = 0, lower = 0;  // two bytes each
  std::uint64_t caseless = 0;          // three bytes each
};
inline PlainLetters plain_letters(const char* s) {
  PlainLetters found;
#if defined(__SSE2__)
  std::uint64_t d0 = 0, d1 = 0, below_b0 = 0, below_a0 = 0;  // the latter two of continuation bytes
  for (int part = 0; part < 4; ++part) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + 16 * part));
    const auto at_least = [&v](unsigned low) { return _mm_cmpgt_epi8(v, _mm_set1_epi8(static_cast<char>(low - 1))); };
    const auto below = [&v](unsigned end) { return _mm_cmplt_epi8(v, _mm_set1_epi8(static_cast<char>(end))); };
    const auto bits = [part](__m128i x) {
      return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(x))) << (16 * part);
    };
    d0 |= bits(_mm_cmpeq_epi8(v, _mm_set1_epi8(static_cast<char>(0xD0))));
    d1 |= bits(_mm_cmpeq_epi8(v, _mm_set1_epi8(static_cast<char>(0xD1))));
    below_b0 |= bits(below(0xB0));
    below_a0 |= bits(below(0xA0));
    const __m128i han = _mm_and_si128(at_least(0xE5), below(0xEA)), hangul = _mm_and_si128(at_least(0xEB), below(0xED));
    found.caseless |= bits(_mm_or_si128(han, hangul));
  }
  found.upper = d0 & below_b0 >> 1;
  found.lower = (d0 & ~(below_b0 >> 1) & ~(std::uint64_t{1} << 63)) | (d1 & below_a0 >> 1);
  found.caseless &= ~std::uint64_t{0} >> 2;
#else
  static_cast<void>(s);
#endif
  return found;
}
inline std::uint64_t bytes_of_two(std::uint64_t first) { return first | first << 1; }
inline std::uint64_t bytes_of_three(std::uint64_t first) { return first | first << 1 | first << 2; }

// Which letters beyond ASCII are capitals, and which small.
struct WideCases {
  std::uint64_t upper = 0, lower = 0;
};

// Take the simple characters of `block.high` out of it: letters become letters, signs and marks are in no mask.
// `marks_are_letters`: a mark behind a letter is one too, and behind anything else stays foreign.
//   needs  valid UTF-8 at s, readable to the end of its characters
template <bool marks_are_letters>
WideCases take_in_high(const char* s, const std::uint8_t* classes, AsciiBlock& block) {
  block.continuation = continuation_bits(s);
  const PlainLetters plain = plain_letters(s);
  WideCases cases{bytes_of_two(plain.upper), bytes_of_two(plain.lower)};
  const std::uint64_t letters = cases.upper | cases.lower | bytes_of_three(plain.caseless);
  block.letter |= letters;
  block.high &= ~letters;
  for (std::uint64_t leads = block.high & ~block.continuation; leads != 0; leads &= leads - 1) {
    const int k = std::countr_zero(leads);
    const Decoded c = decode_utf8(s + k);
    if (static_cast<std::size_t>(k) + c.size > kBlockBytes) break;
    const std::uint8_t bits = classes[c.code_point];
    const std::uint64_t bytes = ((std::uint64_t{1} << c.size) - 1) << k;
    const auto where = [bytes](bool condition) { return condition ? bytes : 0; };
    bool letter = (bits & kLetter) != 0, foreign = (bits & (kSpace | kNumber)) != 0;
    if (marks_are_letters) {
      const bool mark = (bits & kMark) != 0, in_word = k > 0 && (block.letter >> (k - 1) & 1) != 0;
      letter |= mark && in_word;
      foreign |= mark && !in_word;
    }
    block.letter |= where(letter);
    block.high &= ~where(!foreign);
    cases.upper |= where((bits & kUpper) != 0);
    cases.lower |= where((bits & kLower) != 0);
  }
  return cases;
}

}  // namespace mt::tokenizer
