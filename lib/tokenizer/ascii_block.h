#pragma once
// Classes of 64 bytes as bit masks: bit k speaks of byte k.
//
// SSE2, which every x86-64 has; elsewhere a plain loop. Code: header only. Tests: tests/tokenizer/split_pattern_test.cc.

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt::tokenizer {

inline constexpr std::size_t kBlockBytes = 64;

struct AsciiBlock {
  std::uint64_t letter = 0, digit = 0;
  std::uint64_t space = 0;    // blank and \t \n \v \f \r
  std::uint64_t blank = 0;    // ' '
  std::uint64_t newline = 0;  // \n \r
  std::uint64_t apostrophe = 0;
  std::uint64_t control = 0;  // below 0x20 and no white space, and 0x7F
  std::uint64_t high = 0;  // not ASCII; in no other mask
  std::uint64_t continuation = 0;  // of characters beyond ASCII all bytes but the first; see tokenizer/wide_block.h
};

// Classify the 64 bytes at s.   cost  about 40 instructions with SSE2
inline AsciiBlock classify_block(const char* s) {
  AsciiBlock block;
#if defined(__SSE2__)
  for (int part = 0; part < 4; ++part) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + 16 * part));
    // Signed compares: bytes above 127 are negative and fall outside every range, once the case bit is left alone in
    // them.
    const auto in_range = [](__m128i x, char low, char high) {
      return _mm_and_si128(_mm_cmpgt_epi8(x, _mm_set1_epi8(static_cast<char>(low - 1))),
                           _mm_cmplt_epi8(x, _mm_set1_epi8(static_cast<char>(high + 1))));
    };
    const auto bits = [part](__m128i x) {
      return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(x))) << (16 * part);
    };
    const __m128i blank = _mm_cmpeq_epi8(v, _mm_set1_epi8(' '));
    block.letter |= bits(in_range(_mm_or_si128(v, _mm_set1_epi8(0x20)), 'a', 'z'));
    block.digit |= bits(in_range(v, '0', '9'));
    block.space |= bits(_mm_or_si128(blank, in_range(v, '\t', '\r')));
    block.blank |= bits(blank);
    block.newline |= bits(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\n')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\r'))));
    block.apostrophe |= bits(_mm_cmpeq_epi8(v, _mm_set1_epi8('\'')));
    block.control |= bits(_mm_or_si128(in_range(v, 0, 0x1F), _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7F))));
    block.high |= bits(v);
  }
#else
  for (std::size_t k = 0; k < kBlockBytes; ++k) {
    const auto c = static_cast<unsigned char>(s[k]);
    const std::uint64_t bit = std::uint64_t{1} << k;
    const unsigned lower = c | 0x20u;
    if (c >= 0x80) block.high |= bit;
    if (c < 0x20 || c == 0x7F) block.control |= bit;
    if (c < 0x80 && lower >= 'a' && lower <= 'z') block.letter |= bit;
    if (c >= '0' && c <= '9') block.digit |= bit;
    if (c == ' ' || (c >= '\t' && c <= '\r')) block.space |= bit;
    if (c == ' ') block.blank |= bit;
    if (c == '\n' || c == '\r') block.newline |= bit;
    if (c == '\'') block.apostrophe |= bit;
  }
#endif
  block.control &= ~block.space;
  return block;
}

// Bytes that continue a character.   needs, cost  as classify_block
inline std::uint64_t continuation_bits(const char* s) {
  std::uint64_t found = 0;
#if defined(__SSE2__)
  for (int part = 0; part < 4; ++part) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + 16 * part));
    const int mask = _mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8(static_cast<char>(0xC0))));
    found |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(mask)) << (16 * part);
  }
#else
  for (std::size_t k = 0; k < kBlockBytes; ++k) {
    found |= static_cast<std::uint64_t>((static_cast<unsigned char>(s[k]) & 0xC0) == 0x80) << k;
  }
#endif
  return found;
}

// Of letters: which are capitals.   needs, cost  as classify_block
inline std::uint64_t upper_case_bits(const char* s) {
  std::uint64_t lower = 0;
#if defined(__SSE2__)
  for (int part = 0; part < 4; ++part) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + 16 * part));
    const int mask = _mm_movemask_epi8(_mm_slli_epi16(v, 2));  // bit 5 comes to stand in bit 7
    lower |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(mask)) << (16 * part);
  }
#else
  for (std::size_t k = 0; k < kBlockBytes; ++k) lower |= static_cast<std::uint64_t>(s[k] >> 5 & 1) << k;
#endif
  return ~lower;
}

}  // namespace mt::tokenizer
