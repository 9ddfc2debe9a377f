#pragma once
// Sixteen f32 lanes as a vector type of the compiler, whatever the width of the machine. For this folder's sources
// only.

#include <cstdint>
#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "ops/cpu/vector/vector.h"
#include "ops/scalar.h"

#if !defined(MT_ISA)
#define MT_ISA generic
#endif

namespace mt::ops::cpu::MT_ISA {

typedef float Lanes __attribute__((vector_size(64)));
typedef float UnalignedLanes __attribute__((vector_size(64), aligned(4), may_alias));  // for loads and stores only
inline constexpr Count kLanes = 16;

// Before a loop whose turns do not depend on each other: its output may be its input, but not overlap it otherwise.
// Without this a compiler that finds the two equal takes its scalar path.
#if defined(__clang__)
#define MT_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define MT_EACH _Pragma("GCC ivdep")
#endif

#define MT_LANES static inline __attribute__((always_inline))

MT_LANES Lanes load(const float* p) { return *reinterpret_cast<const UnalignedLanes*>(p); }
MT_LANES void store(float* p, Lanes v) { *reinterpret_cast<UnalignedLanes*>(p) = v; }
MT_LANES Lanes all(float f) { return Lanes{f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f}; }
MT_LANES Lanes load_part(const float* p, Count n) {
  Lanes v = all(0.0f);
  for (Count i = 0; i < n; ++i) v[i] = p[i];
  return v;
}

// The fixed tree: 16 → 8 → 4 → 2 → 1.
MT_LANES float total(Lanes v) {
  float s[16];
  for (int i = 0; i < 16; ++i) s[i] = v[i];
  for (int w = 8; w > 0; w /= 2)
    for (int i = 0; i < w; ++i) s[i] += s[i + w];
  return s[0];
}

// Σ f(loader) over rows; f takes a reader that gives lanes of a row at the current place.
template <class F>
MT_LANES float sum_over(Count n, const F& f) {
  Lanes acc = all(0.0f);
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes)
    acc += f([i](const float* p) __attribute__((always_inline)) { return load(p + i); });
  if (i < n) {
    const Count rest = n - i;
    acc += f([ i, rest ](const float* p) __attribute__((always_inline)) { return load_part(p + i, rest); });
  }
  return total(acc);
}

}  // namespace mt::ops::cpu::MT_ISA
