#pragma once
// What device code says, for the host's compiler: qualifiers, indices, vectors, warp operations, atomics, intrinsics.
//
// Code: header only, over emulation.h. Tests: self_test/.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "emulation.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#define threadIdx (::mt::emulation::self->index)
#define blockIdx (::mt::emulation::self->block)
#define blockDim (::mt::emulation::self->threads)
#define gridDim (::mt::emulation::self->blocks)
inline constexpr int warpSize = 32;

// ---- vectors --------------------------------------------------------------------------------------------------------
#define MT_EMULATION_VECTORS(T, name)                                                           \
  struct alignas(2 * sizeof(T)) name##2 {                                                       \
    T x, y;                                                                                     \
  };                                                                                            \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {                             \
    T x, y, z, w;                                                                               \
  };                                                                                            \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                    \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
MT_EMULATION_VECTORS(float, float)
MT_EMULATION_VECTORS(double, double)
MT_EMULATION_VECTORS(int, int)
MT_EMULATION_VECTORS(unsigned, uint)
MT_EMULATION_VECTORS(short, short)
MT_EMULATION_VECTORS(unsigned short, ushort)
MT_EMULATION_VECTORS(unsigned char, uchar)
MT_EMULATION_VECTORS(long long, longlong)
MT_EMULATION_VECTORS(unsigned long long, ulonglong)
#undef MT_EMULATION_VECTORS

// ---- waiting --------------------------------------------------------------------------------------------------------
inline void __syncthreads(mt::emulation::Place place = mt::emulation::Place::current()) {
  if (!mt::emulation::left_out(place)) mt::emulation::block_barrier(0, "__syncthreads", place);
}
inline int __syncthreads_count(int predicate, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::block_barrier(predicate != 0, "__syncthreads_count", place);
}
inline int __syncthreads_or(int predicate, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::block_barrier(predicate != 0, "__syncthreads_or", place) != 0;
}
inline int __syncthreads_and(int predicate, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::block_barrier(predicate == 0, "__syncthreads_and", place) == 0;
}
inline void __syncwarp(unsigned mask = ~0u, mt::emulation::Place place = mt::emulation::Place::current()) {
  if (!mt::emulation::left_out(place)) mt::emulation::warp_exchange(nullptr, 0, nullptr, mask, "__syncwarp", place);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---- shuffles and votes ---------------------------------------------------------------------------------------------
namespace mt::emulation {

// The value of lane `from` where it is in the mask; a lane outside gives what nobody should use.
template <class T>
T shuffle(unsigned mask, T value, unsigned from, const char* what, Place place) {
  alignas(T) std::byte all[32 * sizeof(T)];
  warp_exchange(&value, sizeof(T), all, mask, what, place);
  T out;
  std::memcpy(&out, all + from % 32 * sizeof(T), sizeof(T));
  return out;
}

inline unsigned ballot(unsigned mask, int predicate, const char* what, Place place) {
  int all[32];
  const int mine = predicate != 0;
  warp_exchange(&mine, sizeof mine, all, mask, what, place);
  unsigned out = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1u) != 0 && all[i] != 0) out |= 1u << i;
  return out;
}

template <class T, class F>
T reduce(unsigned mask, T value, const F& join, const char* what, Place place) {
  T all[32];
  warp_exchange(&value, sizeof value, all, mask, what, place);
  bool first = true;
  T out{};
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1u) == 0) continue;
    out = first ? all[i] : join(out, all[i]);
    first = false;
  }
  return out;
}

}  // namespace mt::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32,
              mt::emulation::Place place = mt::emulation::Place::current()) {
  const unsigned lane = mt::emulation::self->lane, w = static_cast<unsigned>(width);
  return mt::emulation::shuffle(mask, value, lane / w * w + static_cast<unsigned>(from) % w, "__shfl_sync", place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  mt::emulation::Place place = mt::emulation::Place::current()) {
  const unsigned lane = mt::emulation::self->lane, w = static_cast<unsigned>(width);
  const unsigned from = lane ^ static_cast<unsigned>(bits);
  return mt::emulation::shuffle(mask, value, from / w > lane / w ? lane : from, "__shfl_xor_sync", place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   mt::emulation::Place place = mt::emulation::Place::current()) {
  const unsigned lane = mt::emulation::self->lane, w = static_cast<unsigned>(width);
  return mt::emulation::shuffle(mask, value, lane % w + delta < w ? lane + delta : lane, "__shfl_down_sync", place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 mt::emulation::Place place = mt::emulation::Place::current()) {
  const unsigned lane = mt::emulation::self->lane, w = static_cast<unsigned>(width);
  return mt::emulation::shuffle(mask, value, lane % w >= delta ? lane - delta : lane, "__shfl_up_sync", place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::ballot(mask, predicate, "__ballot_sync", place);
}
inline int __any_sync(unsigned mask, int predicate, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::ballot(mask, predicate, "__any_sync", place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::ballot(mask, predicate, "__all_sync", place) == mask;
}
template <class T>
T __reduce_add_sync(unsigned mask, T value, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::reduce(mask, value, [](T a, T b) { return a + b; }, "__reduce_add_sync", place);
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, mt::emulation::Place place = mt::emulation::Place::current()) {
  return mt::emulation::reduce(mask, value, [](T a, T b) { return std::max(a, b); }, "__reduce_max_sync", place);
}

// ---- atomics: one thread runs at a time -----------------------------------------------------------------------------
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  const T old = *p;
  *p = static_cast<T>(old + v);
  return old;
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  const T old = *p;
  *p = std::max(old, v);
  return old;
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> v) {
  const T old = *p;
  *p = std::min(old, v);
  return old;
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> v) {
  return std::exchange(*p, v);
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  const T old = *p;
  if (old == expected) *p = v;
  return old;
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> v) {
  return std::exchange(*p, static_cast<T>(*p | v));
}
template <class T>
T atomicAnd(T* p, std::type_identity_t<T> v) {
  return std::exchange(*p, static_cast<T>(*p & v));
}

// ---- intrinsics -----------------------------------------------------------------------------------------------------
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
inline int __ffs(int v) { return v == 0 ? 0 : std::countr_zero(static_cast<unsigned>(v)) + 1; }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __expf(float a) { return std::exp(a); }
inline float __logf(float a) { return std::log(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
using std::max;
using std::min;
