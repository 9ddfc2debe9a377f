#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

void bf16_to_f32(const void* x, float* out, Count n) {
  const auto* in = static_cast<const std::uint16_t*>(x);
  MT_EACH for (Count i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16);
}

void f32_to_bf16(const float* x, void* out, Count n) {
  auto* to = static_cast<std::uint16_t*>(out);
  MT_EACH for (Count i = 0; i < n; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
    to[i] = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

// Branch-free forms of base/dtype.h's conversions, so that the loops vectorise.
void f16_to_f32(const void* x, float* out, Count n) {
  const auto* in = static_cast<const std::uint16_t*>(x);
  MT_EACH for (Count i = 0; i < n; ++i) {
    const std::uint32_t h = in[i], sign = (h & 0x8000u) << 16, rest = (h & 0x7fffu) << 13;
    const float small = static_cast<float>(static_cast<std::int32_t>(h & 0x3ffu)) * 0x1p-24f;
    std::uint32_t bits = rest + 0x38000000u;
    bits = rest >= 0x0f800000u ? rest + 0x70000000u : bits;
    bits = rest < 0x00800000u ? std::bit_cast<std::uint32_t>(small) : bits;
    out[i] = std::bit_cast<float>(bits | sign);
  }
}

void f32_to_f16(const float* x, void* out, Count n) {
  auto* to = static_cast<std::uint16_t*>(out);
  MT_EACH for (Count i = 0; i < n; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]), a = u & 0x7fffffffu;
    const float half = std::bit_cast<float>(a < 0x38800000u ? a : 0u) + 0.5f;
    const std::uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    std::uint32_t r = a < 0x38800000u ? std::bit_cast<std::uint32_t>(half) - 0x3f000000u : normal;
    r = a >= 0x477ff000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? 0x7e00u : r;
    to[i] = static_cast<std::uint16_t>(r | ((u >> 16) & 0x8000u));
  }
}

void add(const float* a, const float* b, float* out, Count n) {
  MT_EACH for (Count i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void scale(const float* x, float factor, float* out, Count n) {
  MT_EACH for (Count i = 0; i < n; ++i) out[i] = x[i] * factor;
}

// "not ≤" lets a NaN in; once in, no comparison throws it out again unless another NaN comes.
float max(const float* x, Count n) {
  const float low = -__builtin_inff();
  Lanes v[4] = {all(low), all(low), all(low), all(low)};  // four, because each step waits for the one before
  const auto take = [](Lanes a, Lanes b) __attribute__((always_inline)) { return ((b <= a) | (a != a)) ? a : b; };
  Count i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (Count l = 0; l < 4; ++l) v[l] = take(v[l], load(x + i + l * kLanes));
  for (; i + kLanes <= n; i += kLanes) v[0] = take(v[0], load(x + i));
  v[0] = take(take(v[0], v[1]), take(v[2], v[3]));
  float m[kLanes];
  store(m, v[0]);
  for (; i < n; ++i) m[0] = x[i] <= m[0] || m[0] != m[0] ? m[0] : x[i];
  for (Count w = kLanes / 2; w > 0; w /= 2)
    for (Count l = 0; l < w; ++l) m[l] = m[l + w] <= m[l] || m[l] != m[l] ? m[l] : m[l + w];
  return m[0];
}

void transpose(const float* x, Count x_row, Count rows, Count columns, float* out, Count out_row) {
  constexpr Count kTile = 16;
  for (Count i0 = 0; i0 < rows; i0 += kTile)
    for (Count j0 = 0; j0 < columns; j0 += kTile) {
      const Count i1 = i0 + kTile < rows ? i0 + kTile : rows, j1 = j0 + kTile < columns ? j0 + kTile : columns;
      for (Count j = j0; j < j1; ++j)
        for (Count i = i0; i < i1; ++i) out[j * out_row + i] = x[i * x_row + j];
    }
}

float dot(const float* a, const float* b, Count n) {
  return sum_over(
      n, [=](auto at) __attribute__((always_inline)) { return at(a) * at(b); });
}

}  // namespace mt::ops::cpu::MT_ISA
