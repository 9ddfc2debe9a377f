#include "ops/cuda/fp8_format.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

__global__ void find_largest(Elements x, Plane p, unsigned* out) {
  unsigned most = 0;
  const Count all = p.rows * p.groups;
  for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < all;
       i += static_cast<Count>(gridDim.x) * blockDim.x) {
    const Count row = i / p.groups, at = i % p.groups * kGroup;
    float v[kGroup];
    load(x, row, at, p.columns - at < kGroup ? static_cast<int>(p.columns - at) : kGroup, v);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) most = magnitude(v[j]) > most ? magnitude(v[j]) : most;
  }
  note_largest(most, shared_mem<unsigned>(), out);
}

struct RoundAll {
  Elements x, out;
  Format format;
  const unsigned* amax;
  __device__ void operator()(Count row, Count at, int count) const {
    float v[kGroup];
    load(x, row, at, count, v);
    format.round(v, format.scale(*amax));
    store(out, row, at, count, v);
  }
};

// A block of threads for each block of the matrix: its largest, then all of it.
__global__ void round_blocks(Elements x, Elements out, Format format, Plane p, Count block_rows, Count block_columns) {
  const Count across = (p.columns + block_columns - 1) / block_columns;
  const Count top = blockIdx.x / across * block_rows, left = blockIdx.x % across * block_columns;
  const Count height = p.rows - top < block_rows ? p.rows - top : block_rows;
  const Count width = p.columns - left < block_columns ? p.columns - left : block_columns;
  const Count groups = (width + kGroup - 1) / kGroup, all = height * groups;
  auto* largest = shared_mem<unsigned>();
  if (threadIdx.x == 0) largest[32] = 0;  // the same thread notes the largest there
  unsigned most = 0;
  float v[kGroup];
  for (Count i = threadIdx.x; i < all; i += blockDim.x) {
    const Count at = i % groups * kGroup;
    load(x, top + i / groups, left + at, width - at < kGroup ? static_cast<int>(width - at) : kGroup, v);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) most = magnitude(v[j]) > most ? magnitude(v[j]) : most;
  }
  note_largest(most, largest, largest + 32);
  __syncthreads();
  const float by = format.scale(largest[32]);
  for (Count i = threadIdx.x; i < all; i += blockDim.x) {
    const Count at = i % groups * kGroup;
    const int count = width - at < kGroup ? static_cast<int>(width - at) : kGroup;
    load(x, top + i / groups, left + at, count, v);
    format.round(v, by);
    store(out, top + i / groups, left + at, count, v);
  }
}

__global__ void move_history(float* history, Count length, Count n, float* seen, float* used, int most_recent) {
  const Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) next_amax(history + i, length, n, seen + i, used + i, most_recent != 0);
}

}  // namespace

void amax_history(const Stream& stream, const AmaxHistoryArgs& g) {
  const Count n = g.history.dim(1);
  launch(stream, move_history, {.x = static_cast<unsigned>(ceil_div(n, kThreads)), .threads = kThreads},
         static_cast<float*>(g.history.data), g.history.dim(0), n, static_cast<float*>(g.seen.data),
         static_cast<float*>(g.used.data), g.most_recent);
}

void abs_max(const Stream& stream, const AbsMaxArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  if (rows == 0 || n == 0) return;
  const Plane p{rows, n, ceil_div(n, kGroup), 0};
  const Count blocks = ceil_div(rows * p.groups, kThreads);
  launch(stream, find_largest,
         {.x = static_cast<unsigned>(blocks < 1024 ? blocks : 1024), .threads = kThreads, .shared_bytes = 32 * 4},
         elements(g.x), p, static_cast<unsigned*>(g.out.data));
}

void fp8_round(const Stream& stream, const Fp8RoundArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  if (rows == 0 || n == 0) return;
  const Format format{g.format == DType::e4m3, g.margin};
  if (g.amax)
    return each_group(stream, rows, n,
                      RoundAll{elements(g.x), elements(g.out), format, static_cast<const unsigned*>(g.amax.data)});
  const Count down = ceil_div(rows, g.block_rows), across = ceil_div(n, g.block_columns);
  const Count height = g.block_rows < rows ? g.block_rows : rows, width = g.block_columns < n ? g.block_columns : n;
  const Count groups = height * ceil_div(width, kGroup);
  Elements x = elements(g.x), out = elements(g.out);
  x.whole_words = x.whole_words && bytes_of(g.x.dtype, g.block_columns) % 16 == 0;
  out.whole_words = out.whole_words && bytes_of(g.x.dtype, g.block_columns) % 16 == 0;
  launch(stream, round_blocks,
         {.x = static_cast<unsigned>(down * across), .threads = groups <= 32 ? 32u : kThreads, .shared_bytes = 33 * 4},
         x, out, format, Plane{rows, n, 0, 0}, g.block_rows, g.block_columns);
}

}  // namespace mt::ops::cuda
