#pragma once
// The formulas of element-wise ops on one f32, written once for every backend and every vector width.
//
// Only +, −, ·, / and bit operations: no libm, no fused multiply-add, so a loop that a compiler vectorises gives the
// same bits in its body and its tail. Polynomials are Chebyshev fits made for this file; errors are measured in
// tests/ops/scalar_test.cc against double.
// Code: header only. Tests: tests/ops/scalar_test.cc.

#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "base/philox.h"

#if defined(__GNUC__)
#define MT_INLINE MT_HD inline __attribute__((always_inline))
#else
#define MT_INLINE MT_HD inline
#endif

namespace mt::ops {

// e^x, relative error below 2e-7; 0 below −103.97, infinity above 88.72, NaN stays.
MT_INLINE float exp_f32(float x) {
  const float lo = x < -104.0f ? -104.0f : x;
  const float c = lo > 89.0f ? 89.0f : lo;
  const float shifted = c * 1.44269502f + 12582912.0f;  // 1.5·2^23: the integer lands in the low bits
  const float n = shifted - 12582912.0f;
  const auto k = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u);
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts, the first exact times n
  float p = 0.00139336765f;
  p = p * r + 0.00836319756f;
  p = p * r + 0.0416664630f;
  p = p * r + 0.166665763f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  const std::int32_t half = k >> 1;  // two factors, so that the exponent of each fits and denormals come out right
  const float s1 = std::bit_cast<float>(static_cast<std::uint32_t>(half + 127) << 23);
  const float s2 = std::bit_cast<float>(static_cast<std::uint32_t>(k - half + 127) << 23);
  return (p * s1) * s2;
}

// ln x for normal x > 0 (infinity and NaN stay), absolute error below 2e-7 near 1 and relative below 2e-7 elsewhere.
MT_INLINE float log_f32(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t up = u - 0x3f3504f3u;  // below sqrt(1/2) the exponent goes down by one
  const auto k = static_cast<std::int32_t>(up) >> 23;
  const float m = std::bit_cast<float>(u - (static_cast<std::uint32_t>(k) << 23));
  const float z = m - 1.0f, z2 = z * z, e = static_cast<float>(k);
  float p = -0.0810155869f;
  p = p * z + 0.127123073f;
  p = p * z - 0.129722387f;
  p = p * z + 0.142021745f;
  p = p * z - 0.166422471f;
  p = p * z + 0.200014681f;
  p = p * z - 0.250002980f;
  p = p * z + 0.333333284f;
  const float tail = e * -2.12194440e-4f + (p * z2 * z - 0.5f * z2);
  const float r = tail + z + e * 0.693359375f;
  return x < __builtin_inff() ? r : x;
}

MT_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp_f32(-x)); }

// erf, absolute error below 2e-7.
MT_INLINE float erf_f32(float x) {
  const float t = x < 0 ? -x : x, s = t * t;
  float p = 7.88249745e-05f;
  p = p * s - 0.00080188555f;
  p = p * s + 0.00518931216f;
  p = p * s - 0.0268543288f;
  p = p * s + 0.112835974f;
  p = p * s - 0.37612626f;
  p = p * s + 1.12837911f;
  const float u = t > 4.0f ? 4.0f : t;
  float q = -1.6140616e-06f;
  q = q * u + 4.55906229e-05f;
  q = q * u - 0.000592769531f;
  q = q * u + 0.00474022236f;
  q = q * u - 0.0263647176f;
  q = q * u + 0.109978244f;
  q = q * u + 0.631937087f;
  q = q * u + 1.13016665f;
  q = q * u - 0.000303212961f;
  const float small = p * t, large = 1.0f - exp_f32(-q);
  const float r = t < 1.0f ? small : large;
  const float signed_r = x < 0 ? -r : r;
  return x != x ? x : signed_r;
}

// Activations: value and derivative.
struct ActGeluTanh {  // 0.5·x·(1 + tanh(sqrt(2/π)(x + 0.044715x³))) = x·sigmoid(2·…)
  MT_INLINE static float value(float x) { return x * sigmoid(x * (1.59576912f + 0.0713548163f * (x * x))); }
  MT_INLINE static float slope(float x) {
    const float s = sigmoid(x * (1.59576912f + 0.0713548163f * (x * x)));
    return s + x * (s * (1.0f - s)) * (1.59576912f + 0.214064449f * (x * x));
  }
};
struct ActGeluErf {  // x·Φ(x)
  MT_INLINE static float value(float x) { return 0.5f * x * (1.0f + erf_f32(x * 0.707106781f)); }
  MT_INLINE static float slope(float x) {
    return 0.5f * (1.0f + erf_f32(x * 0.707106781f)) + x * (0.398942280f * exp_f32(-0.5f * (x * x)));
  }
};
struct ActSilu {  // x·sigmoid(x)
  MT_INLINE static float value(float x) { return x * sigmoid(x); }
  MT_INLINE static float slope(float x) {
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
  }
};
struct ActRelu {
  MT_INLINE static float value(float x) { return x > 0 ? x : (x != x ? x : 0.0f); }
  MT_INLINE static float slope(float x) { return x > 0 ? 1.0f : 0.0f; }
};
struct ActSquaredRelu {
  MT_INLINE static float value(float x) { return x > 0 ? x * x : (x != x ? x : 0.0f); }
  MT_INLINE static float slope(float x) { return x > 0 ? 2.0f * x : 0.0f; }
};

// Dropout (ops/dropout.h): words below the threshold are dropped; compare with the word's upper 24 bits.
MT_INLINE std::uint32_t dropout_threshold(float p) {
  const double t = static_cast<double>(p) * 16777216.0;
  const auto whole = static_cast<std::uint32_t>(t);
  return static_cast<double>(whole) < t ? whole + 1 : whole;
}
MT_INLINE bool dropout_keeps(std::uint32_t word, std::uint32_t threshold) { return (word >> 8) >= threshold; }

}  // namespace mt::ops
