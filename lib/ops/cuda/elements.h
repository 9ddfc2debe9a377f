#pragma once
// Elements of any float dtype as f32, eight at a time, and kernels that go over all of a matrix so.
//
// A group is eight neighbours of a row: 16 bytes of bf16, two times 16 of f32. It moves in whole 16-byte words where
// every row of the matrix starts on such a border, else element by element. The dtype is looked at when the kernel
// runs: the branch is the same for all threads, and a kernel is compiled once instead of for every pair of dtypes.

#include <cstdint>

#include "device/cuda/launch.h"
#include "ops/cuda/ptx.h"
#include "tensor/view.h"

namespace mt::ops::cuda {

using Count = std::int64_t;
using mt::cuda::Grid;
using mt::cuda::launch;
using mt::cuda::shared_mem;

inline constexpr int kGroup = 8;
inline constexpr unsigned kLaneMask = 0xffffffffu;

// A matrix as kernels see it; a vector has a stride of 0.
struct Elements {
  void* data = nullptr;
  DType dtype = DType::f32;
  bool whole_words = false;  // every row starts on a border of 16 bytes
  std::uint8_t unused[6] = {};
  Count stride = 0;  // between rows
};

inline bool on_border(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// Every row of a view of any dims starts on a border of 16 bytes and has no gaps.
inline bool on_borders(const View& v) {
  bool ok = on_border(v.data) && (v.dim(-1) < 2 || v.stride(-1) == 1);
  for (int d = 0; d + 1 < v.num_dims(); ++d) ok = ok && (v.dim(d) < 2 || bytes_of(v.dtype, v.stride(d)) % 16 == 0);
  return ok;
}

inline Elements elements(const View& v) {
  Elements e;
  if (!v) return e;
  e.data = v.data;
  e.dtype = v.dtype;
  e.stride = v.num_dims() > 1 ? v.stride(0) : 0;
  e.whole_words = on_borders(v);
  return e;
}

// All of a contiguous view as one row.
inline Elements flat(const View& v) {
  Elements e = elements(v);
  e.stride = 0;
  e.whole_words = v && on_border(v.data);
  return e;
}

struct Group {
  float v[kGroup];
};

// The rare ways, compiled once a file: groups cut by an edge, rows off the borders, dtypes of a byte.
template <class T>
__device__ inline void load_single(const T* from, int count, float (&to)[kGroup]) {
#pragma unroll
  for (int i = 0; i < kGroup; ++i) to[i] = i < count ? to_f32(from[i]) : 0.0f;
}
static __device__ MT_NOINLINE Group load_part(const void* data, DType dtype, Count at, int count) {
  Group g;
  switch (dtype) {
    case DType::f32: load_single(static_cast<const float*>(data) + at, count, g.v); break;
    case DType::bf16: load_single(static_cast<const bf16*>(data) + at, count, g.v); break;
    case DType::f16: load_single(static_cast<const f16*>(data) + at, count, g.v); break;
    case DType::e4m3: load_single(static_cast<const e4m3*>(data) + at, count, g.v); break;
    default: load_single(static_cast<const e5m2*>(data) + at, count, g.v); break;
  }
  return g;
}
template <class T>
__device__ inline void store_single(const float (&from)[kGroup], T* to, int count) {
#pragma unroll
  for (int i = 0; i < kGroup; ++i)
    if (i < count) to[i] = from_f32<T>(from[i]);
}
static __device__ MT_NOINLINE void store_part(Group g, void* data, DType dtype, Count at, int count) {
  switch (dtype) {
    case DType::f32: return store_single(g.v, static_cast<float*>(data) + at, count);
    case DType::bf16: return store_single(g.v, static_cast<bf16*>(data) + at, count);
    case DType::f16: return store_single(g.v, static_cast<f16*>(data) + at, count);
    case DType::e4m3: return store_single(g.v, static_cast<e4m3*>(data) + at, count);
    default: return store_single(g.v, static_cast<e5m2*>(data) + at, count);
  }
}

__device__ inline void load_f32(const float* from, float (&to)[kGroup]) {
  float low[4], high[4];
  load16(from, low);
  load16(from + 4, high);
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = low[i], to[i + 4] = high[i];
}
__device__ inline void store_f32(const float (&from)[kGroup], float* to) {
  const float low[4] = {from[0], from[1], from[2], from[3]}, high[4] = {from[4], from[5], from[6], from[7]};
  store16(low, to);
  store16(high, to + 4);
}
template <class T>
__device__ inline void load_half(const T* from, float (&to)[kGroup]) {
  std::uint32_t word[4];
  load16(reinterpret_cast<const std::uint32_t*>(from), word);
#pragma unroll
  for (int i = 0; i < 4; ++i) unpack<T>(word[i], to[2 * i], to[2 * i + 1]);
}
template <class T>
__device__ inline void store_half(const float (&from)[kGroup], T* to) {
  const std::uint32_t word[4] = {pack<T>(from[0], from[1]), pack<T>(from[2], from[3]), pack<T>(from[4], from[5]),
                                 pack<T>(from[6], from[7])};
  store16(word, reinterpret_cast<std::uint32_t*>(to));
}

__device__ inline bool is_whole(const Elements& e, int count) {
  return e.whole_words && count == kGroup && (e.dtype == DType::f32 || e.dtype == DType::bf16 || e.dtype == DType::f16);
}

// Elements [column, column + count) of a row; what is beyond `count` reads as zero.
__device__ inline void load(const Elements& e, Count row, Count column, int count, float (&to)[kGroup]) {
  const Count at = row * e.stride + column;
  if (is_whole(e, count)) {
    if (e.dtype == DType::bf16) load_half(static_cast<const bf16*>(e.data) + at, to);
    else if (e.dtype == DType::f32) load_f32(static_cast<const float*>(e.data) + at, to);
    else load_half(static_cast<const f16*>(e.data) + at, to);
    return;
  }
  const Group g = load_part(e.data, e.dtype, at, count);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) to[i] = g.v[i];
}

__device__ inline void store(const Elements& e, Count row, Count column, int count, const float (&from)[kGroup]) {
  const Count at = row * e.stride + column;
  if (is_whole(e, count)) {
    if (e.dtype == DType::bf16) store_half(from, static_cast<bf16*>(e.data) + at);
    else if (e.dtype == DType::f32) store_f32(from, static_cast<float*>(e.data) + at);
    else store_half(from, static_cast<f16*>(e.data) + at);
    return;
  }
  Group g;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) g.v[i] = from[i];
  store_part(g, e.data, e.dtype, at, count);
}

__device__ inline float load_one(const Elements& e, Count row, Count column) {
  const Count at = row * e.stride + column;
  switch (e.dtype) {
    case DType::f32: return static_cast<const float*>(e.data)[at];
    case DType::bf16: return to_f32(static_cast<const bf16*>(e.data)[at]);
    case DType::f16: return to_f32(static_cast<const f16*>(e.data)[at]);
    case DType::e4m3: return to_f32(static_cast<const e4m3*>(e.data)[at]);
    default: return to_f32(static_cast<const e5m2*>(e.data)[at]);
  }
}

__device__ inline void store_one(const Elements& e, Count row, Count column, float value) {
  const Count at = row * e.stride + column;
  switch (e.dtype) {
    case DType::f32: static_cast<float*>(e.data)[at] = value; return;
    case DType::bf16: static_cast<bf16*>(e.data)[at] = to_bf16(value); return;
    case DType::f16: static_cast<f16*>(e.data)[at] = to_f16(value); return;
    case DType::e4m3: static_cast<e4m3*>(e.data)[at] = to_e4m3(value); return;
    default: static_cast<e5m2*>(e.data)[at] = to_e5m2(value); return;
  }
}

// How the groups of a matrix are spread over threads: 2^shift neighbours take groups of one row.
struct Plane {
  Count rows, columns, groups;
  int shift;
};

inline constexpr unsigned kThreads = 256;
inline constexpr Count kMostBlocks = 8192;  // beyond, threads take several groups

inline Count ceil_div(Count a, Count b) { return (a + b - 1) / b; }

struct PlaneGrid {
  Plane plane;
  Grid grid;
};

inline PlaneGrid plane_of(Count rows, Count columns) {
  PlaneGrid p;
  p.plane = {rows, columns, ceil_div(columns, kGroup), 0};
  while ((Count{1} << p.plane.shift) < p.plane.groups && (1u << p.plane.shift) < kThreads) ++p.plane.shift;
  const Count lanes = Count{1} << p.plane.shift;
  unsigned threads = 32;
  while (threads < kThreads && (threads < lanes || static_cast<Count>(threads) < rows * lanes)) threads *= 2;
  const Count across = ceil_div(p.plane.groups, lanes), down = ceil_div(rows, static_cast<Count>(threads) / lanes);
  p.grid.threads = threads;
  p.grid.x = static_cast<unsigned>(across < kMostBlocks ? across : kMostBlocks);
  const Count most = kMostBlocks / (p.grid.x > 0 ? p.grid.x : 1);
  p.grid.y = static_cast<unsigned>(down < most ? down : (most > 0 ? most : 1));
  return p;
}

template <class F>
__global__ void over_plane(Plane p, F f) {
  const unsigned lanes = 1u << p.shift, per_block = blockDim.x >> p.shift;
  const Count step = static_cast<Count>(gridDim.y) * per_block;
  for (Count group = static_cast<Count>(blockIdx.x) * lanes + (threadIdx.x & (lanes - 1)); group < p.groups;
       group += static_cast<Count>(gridDim.x) * lanes) {
    const Count column = group * kGroup, rest = p.columns - column;
    const int count = rest < kGroup ? static_cast<int>(rest) : kGroup;
    for (Count row = static_cast<Count>(blockIdx.y) * per_block + (threadIdx.x >> p.shift); row < p.rows; row += step)
      f(row, column, count);
  }
}

// f(row, column, count) for every group of a matrix, in any order.
template <class F>
void each_group(const Stream& stream, Count rows, Count columns, const F& f) {
  if (rows <= 0 || columns <= 0) return;
  const PlaneGrid p = plane_of(rows, columns);
  launch(stream, over_plane<F>, p.grid, p.plane, f);
}

}  // namespace mt::ops::cuda
