#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {

constexpr Count kQuads = 64;  // Philox calls per block: four words each

// Words of elements [first, first + n), n ≤ 4·kQuads − 3; word of element e at words[e − first/4·4].
MT_LANES void draw(const DropoutRow& row, Count first, Count n, std::uint32_t* words) {
  const Count quad = first / 4, quads = (first + n + 3) / 4 - quad;
  std::uint32_t w0[kQuads], w1[kQuads], w2[kQuads], w3[kQuads];
  MT_EACH for (Count q = 0; q < kQuads; ++q) {  // always all of them: a fixed count vectorises best
    std::uint32_t c0 = static_cast<std::uint32_t>(quad + q), c1 = row.c1, c2 = row.c2, c3 = row.c3;
    std::uint32_t k0 = row.key.k0, k1 = row.key.k1;
    for (int round = 0; round < 10; ++round) {  // as base/philox.h, without the array it returns
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(p1);
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    w0[q] = c0;
    w1[q] = c1;
    w2[q] = c2;
    w3[q] = c3;
  }
  MT_EACH for (Count q = 0; q < quads; ++q) {
    words[4 * q] = w0[q];
    words[4 * q + 1] = w1[q];
    words[4 * q + 2] = w2[q];
    words[4 * q + 3] = w3[q];
  }
}

// Factors 0 or keep_scale of elements [at, at + n).
MT_LANES Count factors(const DropoutRow& row, Count at, Count n, float* factor) {
  std::uint32_t words[4 * kQuads];
  const Count first = row.first + at, skip = first % 4;
  const Count count = n - at < 4 * kQuads - skip ? n - at : 4 * kQuads - skip;
  draw(row, first, count, words);
  MT_EACH for (Count i = 0; i < count; ++i) factor[i] = (words[skip + i] >> 8) >= row.threshold ? row.keep_scale : 0.0f;
  return count;
}

}  // namespace

void bias_add(const float* x, const float* bias, const float* residual, float* out, Count n) {
  if (bias != nullptr && residual != nullptr)
    MT_EACH for (Count i = 0; i < n; ++i) out[i] = residual[i] + (x[i] + bias[i]);
  else if (bias != nullptr)
    MT_EACH for (Count i = 0; i < n; ++i) out[i] = x[i] + bias[i];
  else if (residual != nullptr)
    MT_EACH for (Count i = 0; i < n; ++i) out[i] = residual[i] + x[i];
  else
    MT_EACH for (Count i = 0; i < n; ++i) out[i] = x[i];
}

void bias_dropout_add(const float* x, const float* bias, const float* residual, const DropoutRow& row, float* out,
                      Count n) {
  float factor[4 * kQuads], sum[4 * kQuads];
  for (Count at = 0; at < n;) {
    const Count count = factors(row, at, n, factor);
    MT_EACH for (Count i = 0; i < count; ++i) sum[i] = x[at + i];
    if (bias != nullptr)
      MT_EACH for (Count i = 0; i < count; ++i) sum[i] += bias[at + i];
    // A dropped element is zero even when x is not finite.
    MT_EACH for (Count i = 0; i < count; ++i) sum[i] = factor[i] != 0.0f ? sum[i] * factor[i] : 0.0f;
    if (residual != nullptr)
      MT_EACH for (Count i = 0; i < count; ++i) sum[i] = residual[at + i] + sum[i];
    MT_EACH for (Count i = 0; i < count; ++i) out[at + i] = sum[i];
    at += count;
  }
}

void dropout(float* x, const DropoutRow& row, Count n) {
  float factor[4 * kQuads];
  for (Count at = 0; at < n;) {
    const Count count = factors(row, at, n, factor);
    MT_EACH for (Count i = 0; i < count; ++i) x[at + i] = factor[i] != 0.0f ? x[at + i] * factor[i] : 0.0f;
    at += count;
  }
}

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
