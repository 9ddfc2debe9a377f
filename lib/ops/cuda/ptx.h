#pragma once
// The instructions of the GPU that C++ has no word for, each beside a twin that the host emulation runs.
//
//   load16, store16        16 bytes in one access; the address must be on such a border (the twin says so)
//   mma                    C[16, 8] += A[16, 16]·B[16, 8] over a warp, bf16 or f16 with f32 sums (mma.sync.m16n8k16)
//   load_matrices          four 8×8 matrices of 16-bit elements from shared memory, plain or transposed (ldmatrix.x4)
//   copy_async ... wait    global to shared memory behind the thread's back (cp.async)
//   exp2_fast, fused, pack, unpack: one or two instructions; a NaN comes out of pack as the one NaN of the GPU
// Fragments, lane l, g = l / 4, t = l % 4, two neighbouring elements a register: A {row g, columns 2t}, {g + 8, 2t},
// {g, 2t + 8}, {g + 8, 2t + 8}; B {rows 2t, column g}, {rows 2t + 8, column g}; C (f32) {g, 2t}, {g, 2t + 1},
// {g + 8, 2t}, {g + 8, 2t + 1}.
// Tests: tests/ops/cuda/ptx_test.cc holds the twins to plain loops.

#include <cstdint>
#include <cstring>

#include "base/dtype.h"

#if defined(MT_CUDA_EMULATED)
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#endif

namespace mt::ops::cuda {

#if !defined(MT_CUDA_EMULATED)

#define MT_NOINLINE __noinline__

template <class T, int N>
__device__ __forceinline__ void load16(const T* from, T (&to)[N]) {
  static_assert(sizeof(to) == 16);
  const uint4 word = *reinterpret_cast<const uint4*>(from);
  memcpy(&to, &word, 16);
}
template <class T, int N>
__device__ __forceinline__ void store16(const T (&from)[N], T* to) {
  static_assert(sizeof(from) == 16);
  uint4 word;
  memcpy(&word, &from, 16);
  *reinterpret_cast<uint4*>(to) = word;
}
__device__ __forceinline__ std::uint64_t load8(const void* from) { return *static_cast<const std::uint64_t*>(from); }
__device__ __forceinline__ void store8(void* to, std::uint64_t word) { *static_cast<std::uint64_t*>(to) = word; }

template <class T>
__device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (sizeof(T) == 2 && dtype_of<T> == DType::bf16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Lane l gives row l % 8 of matrix l / 8; the lanes' registers are those of fragment A (plain) above.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// 16 bytes, zeros where not `there` (the address is then not read). The thread sees them after copy_async_wait, others
// after a barrier behind it.
__device__ __forceinline__ void copy_async(void* to_shared, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most N of the thread's groups are under way. A kernel ends with a wait for all.
template <int N>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// Two numbers rounded to T, the first in the low half.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t r;
  if constexpr (dtype_of<T> == DType::bf16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <class T>
__device__ __forceinline__ void unpack(std::uint32_t pair, float& low, float& high) {
  if constexpr (dtype_of<T> == DType::bf16) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000u);
  } else {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
  }
}

#else  // the twins

#define MT_NOINLINE __attribute__((noinline))

namespace twin {

[[noreturn]] inline void wrong(const char* what, const void* at) {
  std::fprintf(stderr, "emulated CUDA: %s at %p (block %u, %u, %u, thread %u)\n", what, at, blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x);
  std::abort();
}
inline void want_border(const void* p, unsigned bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) wrong("an access is off its border", p);
}

// Copies of a thread that may not have arrived yet. Every second one arrives at once: what reads too early meets the
// late ones, what is overwritten too early the others.
struct Copies {
  struct Copy {
    void* to;
    const void* from;
    bool there;
    unsigned group;
  };
  std::vector<Copy> late;
  unsigned group = 0, count = 0;
  uint3 block{};
};
inline Copies& copies_of_thread() {
  static thread_local std::vector<Copies> all(1024);
  Copies& mine = all[threadIdx.x];
  if (mine.block.x != blockIdx.x || mine.block.y != blockIdx.y || mine.block.z != blockIdx.z) {
    if (!mine.late.empty()) wrong("a block ended with copies under way", mine.late.front().to);
    mine.block = uint3{blockIdx.x, blockIdx.y, blockIdx.z};
  }
  return mine;
}
inline void finish(const Copies::Copy& c) {
  if (c.there) std::memcpy(c.to, c.from, 16);
  else std::memset(c.to, 0, 16);
}

template <class T>
float element(std::uint32_t pair, int which) {
  return to_f32(T{static_cast<std::uint16_t>(which == 0 ? pair & 0xffffu : pair >> 16)});
}

}  // namespace twin

template <class T, int N>
inline void load16(const T* from, T (&to)[N]) {
  static_assert(sizeof(to) == 16);
  twin::want_border(from, 16);
  std::memcpy(&to, from, 16);
}
template <class T, int N>
inline void store16(const T (&from)[N], T* to) {
  static_assert(sizeof(from) == 16);
  twin::want_border(to, 16);
  std::memcpy(static_cast<void*>(to), &from, 16);
}
inline std::uint64_t load8(const void* from) {
  twin::want_border(from, 8);
  std::uint64_t word;
  std::memcpy(&word, from, 8);
  return word;
}
inline void store8(void* to, std::uint64_t word) {
  twin::want_border(to, 8);
  std::memcpy(to, &word, 8);
}

template <class T>
inline void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const std::uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  std::uint32_t all[32][6];
  mt::emulation::warp_exchange(mine, sizeof mine, all);
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (unsigned half = 0; half < 2; ++half) {
    float row[16];
    for (unsigned k = 0; k < 16; ++k)
      row[k] = twin::element<T>(all[4 * g + k % 8 / 2][half + k / 8 * 2], static_cast<int>(k % 2));
    for (unsigned n = 0; n < 2; ++n) {
      float sum = 0;
      for (unsigned k = 0; k < 16; ++k)
        sum += row[k] * twin::element<T>(all[4 * (2 * t + n) + k % 8 / 2][4 + k / 8], static_cast<int>(k % 2));
      c[half * 2 + n] += sum;
    }
  }
}

namespace twin {
inline void matrices(std::uint32_t (&r)[4], const void* row, bool transposed) {
  want_border(row, 16);
  const void* rows[32];
  mt::emulation::warp_exchange(&row, sizeof row, rows);
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (unsigned m = 0; m < 4; ++m) {
    std::uint16_t two[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned y = transposed ? 2 * t + i : g, x = transposed ? g : 2 * t + i;
      std::memcpy(&two[i], static_cast<const std::uint16_t*>(rows[8 * m + y]) + x, 2);
    }
    r[m] = two[0] | static_cast<std::uint32_t>(two[1]) << 16;
  }
}
}  // namespace twin
inline void load_matrices(std::uint32_t (&r)[4], const void* row) { twin::matrices(r, row, false); }
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) { twin::matrices(r, row, true); }

inline void copy_async(void* to_shared, const void* from, bool there) {
  twin::want_border(to_shared, 16);
  if (there) twin::want_border(from, 16);
  twin::Copies& c = twin::copies_of_thread();
  const twin::Copies::Copy copy{to_shared, from, there, c.group};
  if (c.count++ % 2 == 0) twin::finish(copy);
  else c.late.push_back(copy);
}
inline void copy_async_commit() { ++twin::copies_of_thread().group; }
template <int N>
inline void copy_async_wait(mt::emulation::Place place = mt::emulation::Place::current()) {
  if (mt::emulation::left_out(place)) return;
  twin::Copies& c = twin::copies_of_thread();
  std::size_t done = 0;
  while (done < c.late.size() && c.late[done].group + N < c.group) twin::finish(c.late[done++]);
  c.late.erase(c.late.begin(), c.late.begin() + static_cast<std::ptrdiff_t>(done));
}

inline float exp2_fast(float x) { return std::exp2(x); }
inline float fused(float a, float b, float c) { return a * b + c; }

template <class T>
inline std::uint32_t pack(float low, float high) {
  return from_f32<T>(low).bits | static_cast<std::uint32_t>(from_f32<T>(high).bits) << 16;
}
template <class T>
inline void unpack(std::uint32_t pair, float& low, float& high) {
  low = twin::element<T>(pair, 0);
  high = twin::element<T>(pair, 1);
}

#endif

}  // namespace mt::ops::cuda
