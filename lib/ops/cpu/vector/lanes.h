#pragma once
// Sixteen f32 lanes as a vector type of the compiler, whatever the width of the machine. For this folder's sources only.

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

typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));
inline constexpr Count kLanes = 16;

// Before a loop whose turns do not depend on each other: its output may be its input, but not overlap it otherwise.
// Without this a compiler that finds the two equal takes its scalar path.
#if defined(__clang__)
#define MT_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define MT_EACH _Pragma("GCC ivdep")
#endif

#define MT_LANES static inline __attribute__((always_inline))

MT_LANES Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
MT_LANES void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }
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
  for (; i + kLanes <= n; i += kLanes) acc += f([i](const float* p) __attribute__((always_inline)) { return load(p + i); });
  if (i < n) {
    const Count rest = n - i;
    acc += f([i, rest](const float* p) __attribute__((always_inline)) { return load_part(p + i, rest); });
  }
  return total(acc);
}

// a·b + c in one rounding where the class has it.
MT_LANES Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(_mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b),
                                                 reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
  struct Two {
    __m256 half[2];
  };
  Two x, y, z;
  __builtin_memcpy(&x, &a, 64);
  __builtin_memcpy(&y, &b, 64);
  __builtin_memcpy(&z, &c, 64);
  z.half[0] = _mm256_fmadd_ps(x.half[0], y.half[0], z.half[0]);
  z.half[1] = _mm256_fmadd_ps(x.half[1], y.half[1], z.half[1]);
  Lanes r;
  __builtin_memcpy(&r, &z, 64);
  return r;
#else
  return a * b + c;
#endif
}

}  // namespace mt::ops::cpu::MT_ISA
