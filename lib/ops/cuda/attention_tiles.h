#pragma once
// Tiles of rows in shared memory and products of them on the tensor cores, for attention of bf16 and f16.
//
// A tile row is the head dim, filled with zeros up to kDim, and eight elements more, so that the rows a load_matrices
// takes lie in different banks. A warp holds 16 rows of a product in fragments (ops/cuda/ptx.h).

#include "ops/cuda/attention_blocks.h"

namespace mt::ops::cuda {

inline constexpr float kLog2e = 1.44269504f;

template <int kDim>
inline constexpr int kPitch = kDim + 8;

// Rows [token, token + kRows) of a head; rows from `valid` on and columns from `dim` on become zeros. Asynchronous, to
// be committed. Addresses of rows that are not there are made, not read.
template <class T, int kDim, int kRows, int kThreadsOfBlock>
__device__ inline void load_tile(T* tile, const Heads& x, int head, int token, int valid, int dim) {
  constexpr int kPieces = kDim / 8, kAll = kRows * kPieces;
  const T* from = x.at<T>(token, head);
  if constexpr (kThreadsOfBlock % kPieces == 0 && kAll % kThreadsOfBlock == 0) {
    // A thread keeps its column and goes down by whole rows: two addresses instead of one a copy.
    constexpr int kStep = kThreadsOfBlock / kPieces;
    const int first = static_cast<int>(threadIdx.x) / kPieces, column = static_cast<int>(threadIdx.x) % kPieces * 8;
    const T* at = from + first * x.token + column;
    T* to = tile + first * kPitch<kDim> + column;
    const int rows = column < dim ? valid - first : 0;
#pragma unroll
    for (int j = 0; j < kAll / kThreadsOfBlock; ++j) {
      const bool there = j * kStep < rows;
      copy_async(to + j * kStep * kPitch<kDim>, at, there);
      at += kStep * x.token;
    }
  } else {
#pragma unroll
    for (int j = 0; j < (kAll + kThreadsOfBlock - 1) / kThreadsOfBlock; ++j) {
      const int i = j * kThreadsOfBlock + static_cast<int>(threadIdx.x), row = i / kPieces, column = i % kPieces * 8;
      if (kAll % kThreadsOfBlock != 0 && i >= kAll) break;
      const bool there = row < valid && column < dim;
      copy_async(tile + row * kPitch<kDim> + column, from + row * x.token + column, there);
    }
  }
}

// Fragment A: rows [row, row + 16), columns [column, column + 16) of a tile.
template <class T, int kDim>
__device__ inline void load_a(std::uint32_t (&a)[4], const T* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  load_matrices(a, tile + (row + lane % 16) * kPitch<kDim> + column + lane / 16 * 8);
}

// Fragments B of two neighbouring 8-column tiles of X·Yᵀ: Y's rows [row, row + 16), columns [column, column + 16).
template <class T, int kDim>
__device__ inline void load_b(std::uint32_t (&b)[4], const T* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  load_matrices(b, tile + (row + lane / 16 * 8 + lane % 8) * kPitch<kDim> + column + lane / 8 % 2 * 8);
}

// The same of X·Y: Y's rows [row, row + 16) are summed over, its columns [column, column + 16) are the result's.
template <class T, int kDim>
__device__ inline void load_b_down(std::uint32_t (&b)[4], const T* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  load_matrices_transposed(b, tile + (row + lane % 16) * kPitch<kDim> + column + lane / 16 * 8);
}

// scores[16·kTiles rows, 8·kColumns] = X[row..]·Y[0..]ᵀ over kDim.
template <class T, int kDim, int kTiles, int kColumns>
__device__ inline void multiply_rows(float (&scores)[kTiles][kColumns][4], const T* x, int row, const T* y) {
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
#pragma unroll 2
  for (int k = 0; k < kDim; k += 16) {
    std::uint32_t a[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) load_a<T, kDim>(a[m], x, row + 16 * m, k);
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      std::uint32_t b[4];
      load_b<T, kDim>(b, y, 8 * n, k);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        mma<T>(scores[m][n], a[m], b[0], b[1]);
        mma<T>(scores[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// sums[16·kTiles rows, 8·kOut] += P·Y[., first column..], P given as the fragments of a product of 8·kColumns columns.
template <class T, int kDim, int kTiles, int kColumns, int kOut>
__device__ inline void add_product(float (&sums)[kTiles][kOut][4], const float (&p)[kTiles][kColumns][4], const T* y,
                                   int first_column) {
#pragma unroll
  for (int k = 0; k < kColumns; k += 2) {
    std::uint32_t a[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      a[m][0] = pack<T>(p[m][k][0], p[m][k][1]);
      a[m][1] = pack<T>(p[m][k][2], p[m][k][3]);
      a[m][2] = pack<T>(p[m][k + 1][0], p[m][k + 1][1]);
      a[m][3] = pack<T>(p[m][k + 1][2], p[m][k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < kOut; n += 2) {
      std::uint32_t b[4];
      load_b_down<T, kDim>(b, y, 8 * k, first_column + 8 * n);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        mma<T>(sums[m][n], a[m], b[0], b[1]);
        mma<T>(sums[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Two neighbouring elements of a row of the result; `column` is even and below the head dim.
template <class T>
__device__ inline void put_pair(const Heads& x, int token, int head, int column, float a, float b) {
  if (x.dtype == DType::f32) {
    float* to = x.at<float>(token, head) + column;
    to[0] = a, to[1] = b;
  } else {
    *reinterpret_cast<std::uint32_t*>(x.at<T>(token, head) + column) = pack<T>(a, b);
  }
}

// Whether the tensor cores' kernels take these operands: rows on borders of 16 bytes, a head dim of whole pieces.
inline bool fits_tiles(const View& x) {
  if (x.dtype != DType::bf16 && x.dtype != DType::f16) return false;
  return on_border(x.data) && x.dim(2) % 8 == 0 && x.dim(2) <= 256 &&
         x.stride(0) % 8 == 0 && x.stride(1) % 8 == 0;
}
// Of results: rows on borders of a pair.
inline bool fits_pairs(const View& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0 && x.stride(0) % 2 == 0 && x.stride(1) % 2 == 0;
}

// f(dim of a template) for the smallest that holds `dim`; a type carries the number.
template <int kValue>
struct Dim {
  static constexpr int value = kValue;
};
template <class F>
void with_dim(Count dim, const F& f) {
  if (dim <= 64) f(Dim<64>{});
  else if (dim <= 96) f(Dim<96>{});
  else if (dim <= 128) f(Dim<128>{});
  else f(Dim<256>{});
}

}  // namespace mt::ops::cuda
