#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {

constexpr Count kQuads = 64;  // Philox calls per block: four words each
constexpr Count kCalls = 8;   // of them side by side in a Word

// Eight 32-bit words, each in the low half of 64 bits; the high halves hold anything.
typedef std::uint64_t Word __attribute__((vector_size(64)));

// Full products of the low halves.
MT_LANES Word multiply(Word a, std::uint32_t b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Word>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
#elif defined(__AVX2__)
  __m256i half[2];
  __builtin_memcpy(half, &a, 64);
  const __m256i factor = _mm256_set1_epi64x(b);
  half[0] = _mm256_mul_epu32(half[0], factor);
  half[1] = _mm256_mul_epu32(half[1], factor);
  __builtin_memcpy(&a, half, 64);
  return a;
#else
  return (a & 0xffffffffu) * b;
#endif
}

// Words of elements [first, first + n), n ≤ 4·kQuads − 3; word of element e at words[e − first/4·4]. The rounds are
// those of base/philox.h.
MT_LANES void draw(const DropoutRow& row, Count first, Count n, std::uint32_t* words) {
  const Count quad = first / 4, quads = (first + n + 3) / 4 - quad;
  for (Count q = 0; q < quads; q += 2 * kCalls) {
    Word c0[2], c1[2], c2[2], c3[2];
    for (int h = 0; h < 2; ++h) {  // two at a time hide the latency of the products
      c0[h] = Word{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<std::uint64_t>(quad + q + h * kCalls);
      c1[h] = Word{} + row.c1;
      c2[h] = Word{} + row.c2;
      c3[h] = Word{} + row.c3;
    }
    std::uint32_t k0 = row.key.k0, k1 = row.key.k1;
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const Word p0 = multiply(c0[h], 0xD2511F53u), p1 = multiply(c2[h], 0xCD9E8D57u);
        c0[h] = (p1 >> 32) ^ c1[h] ^ k0;
        c1[h] = p1;
        c2[h] = (p0 >> 32) ^ c3[h] ^ k1;
        c3[h] = p0;
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int h = 0; h < 2; ++h) {
      // Two words of a call share 64 bits: element 4q, 4q + 1 and 4q + 2, 4q + 3.
      const Word low = (c0[h] & 0xffffffffu) | (c1[h] << 32), high = (c2[h] & 0xffffffffu) | (c3[h] << 32);
      std::uint64_t a[kCalls], b[kCalls];
      __builtin_memcpy(a, &low, 64);
      __builtin_memcpy(b, &high, 64);
      std::uint32_t* to = words + 4 * (q + h * kCalls);
      for (Count l = 0; l < kCalls; ++l) {
        __builtin_memcpy(to + 4 * l, &a[l], 8);
        __builtin_memcpy(to + 4 * l + 2, &b[l], 8);
      }
    }
  }
}

// out = residual + mask·(x + bias); a dropped element is zero even when x is not finite.
template <bool Bias, bool Residual>
MT_LANES void masked(const float* x, const float* bias, const float* residual, const std::uint32_t* words,
                     std::uint32_t threshold, float keep_scale, float* out, Count n) {
  MT_EACH for (Count i = 0; i < n; ++i) {
    const float sum = Bias ? x[i] + bias[i] : x[i], kept = sum * keep_scale;
    const float value = (words[i] >> 8) >= threshold ? kept : 0.0f;
    out[i] = Residual ? residual[i] + value : value;
  }
}

MT_LANES void masked_row(const float* x, const float* bias, const float* residual, const DropoutRow& row, float* out,
                         Count n) {
  alignas(64) std::uint32_t words[4 * kQuads];
  const std::uint32_t threshold = row.threshold;
  const float keep_scale = row.keep_scale;
  for (Count at = 0; at < n;) {
    const Count first = row.first + at, skip = first % 4;
    const Count count = n - at < 4 * kQuads - skip ? n - at : 4 * kQuads - skip;
    draw(row, first, count, words);
    if (bias != nullptr && residual != nullptr)
      masked<true, true>(x + at, bias + at, residual + at, words + skip, threshold, keep_scale, out + at, count);
    else if (bias != nullptr)
      masked<true, false>(x + at, bias + at, nullptr, words + skip, threshold, keep_scale, out + at, count);
    else if (residual != nullptr)
      masked<false, true>(x + at, nullptr, residual + at, words + skip, threshold, keep_scale, out + at, count);
    else masked<false, false>(x + at, nullptr, nullptr, words + skip, threshold, keep_scale, out + at, count);
    at += count;
  }
}

}  // namespace

void bias_add(const float* x, const float* bias, const float* residual, float* out, Count n) {
  if (bias != nullptr && residual != nullptr)
    MT_EACH for (Count i = 0; i < n; ++i) out[i] = residual[i] + (x[i] + bias[i]);
  else if (bias != nullptr) MT_EACH for (Count i = 0; i < n; ++i) out[i] = x[i] + bias[i];
  else if (residual != nullptr) MT_EACH for (Count i = 0; i < n; ++i) out[i] = residual[i] + x[i];
  else MT_EACH for (Count i = 0; i < n; ++i) out[i] = x[i];
}

void bias_dropout_add(const float* x, const float* bias, const float* residual, const DropoutRow& row, float* out,
                      Count n) {
  masked_row(x, bias, residual, row, out, n);
}

void dropout(float* x, const DropoutRow& row, Count n) { masked_row(x, nullptr, nullptr, row, x, n); }

void rotate_half(float* x, const float* cosine, const float* sine, float sign, Count half) {
  float* y = x + half;
  MT_EACH for (Count i = 0; i < half; ++i) {
    const float a = x[i], b = y[i], s = sine[i] * sign;
    x[i] = a * cosine[i] - b * s;
    y[i] = b * cosine[i] + a * s;
  }
}

void rotate_interleaved(float* x, const float* cosine, const float* sine, float sign, Count half) {
  MT_EACH for (Count i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], s = sine[i] * sign;
    x[2 * i] = a * cosine[i] - b * s;
    x[2 * i + 1] = b * cosine[i] + a * s;
  }
}

}  // namespace mt::ops::cpu::MT_ISA
