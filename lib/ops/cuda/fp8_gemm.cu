// Products of fp8 operands by cuBLASLt, where the device has them; by rounding and a product in bf16 elsewhere.
//
// The library wants both operands along the sum ("TN") on every device that has fp8 and the block scales of Hopper, so an
// operand is laid out so while it is rounded: a block of threads takes a tile of 128x128, finds what its scales come of,
// and writes bytes, turned over in shared memory where the sum goes down the columns.
#include "ops/cuda/fp8_format.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

constexpr int kTile = 128, kTileThreads = 256, kRowStep = kTileThreads / (kTile / kGroup),
              kGroupsEach = kTile / kRowStep;  // 16 threads a row, 8 groups each
constexpr unsigned kPitch = kTile + 4;         // bytes of a turned row: neighbours of a column lie in other banks
constexpr unsigned kTileShared = kTile * kPitch + (kRowStep + 1) * kTile * 4 + 33 * 4;

// An operand [outer, inner] along the sum, made of x as it is or turned.
struct Quantize {
  Elements x;
  Count rows, columns;  // of x
  Format format;
  Scaling scaling;
  bool turned;
  const unsigned* amax;  // of Scaling::tensor
  std::uint8_t* bytes;
  float* scale;  // what the bytes are multiplied with
  Count outer, inner;
};

struct Tile {
  float v[kGroupsEach][kGroup];
  Count top, left;
  unsigned row, column;  // of the thread's first group, in the tile; the next is kRowStep rows below
};

__device__ inline unsigned largest_of(const float (&v)[kGroup]) {
  unsigned most = 0;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) most = magnitude(v[j]) > most ? magnitude(v[j]) : most;
  return most;
}

// Where the scale of (outer, block of 128 of the sum) lies.
__device__ inline Count scale_at(const Quantize& q, Count outer, Count block) {
  if (q.scaling == Scaling::along) return block * q.outer + outer;
  const Count blocks = (q.inner + kTile - 1) / kTile;
  return outer / kTile * ((blocks + 3) / 4 * 4) + block;
}

// The factors of the tile's elements: one for a thread's group of a row (by[i][0]), or one for each of its columns.
__device__ inline void find_scales(const Quantize& q, const Tile& t, unsigned* shared, float (&by)[kGroup]) {
  if (q.scaling == Scaling::square) {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < kGroupsEach; ++i) {
      const unsigned here = largest_of(t.v[i]);
      most = here > most ? here : most;
    }
    if (threadIdx.x == 0) shared[32] = 0;  // the same thread notes the largest there
    note_largest(most, shared, shared + 32);
    __syncthreads();
    const float one = q.format.scale(shared[32]);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) by[j] = one;
    if (threadIdx.x == 0)
      q.scale[q.turned ? scale_at(q, t.left, t.top / kTile) : scale_at(q, t.top, t.left / kTile)] = 1 / one;
    return;
  }
  // Columns: the largest of a thread's rows, then of the threads above each other.
  const unsigned line = threadIdx.x / (kTile / kGroup);
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < kGroupsEach; ++i) most = magnitude(t.v[i][j]) > most ? magnitude(t.v[i][j]) : most;
    shared[line * kTile + t.column + j] = most;
  }
  __syncthreads();
  if (threadIdx.x < kTile) {
    unsigned most = 0;
    for (unsigned l = 0; l < kRowStep; ++l) {
      const unsigned here = shared[l * kTile + threadIdx.x];
      most = here > most ? here : most;
    }
    shared[kRowStep * kTile + threadIdx.x] = most;
    if (t.left + threadIdx.x < q.columns)
      q.scale[scale_at(q, t.left + threadIdx.x, t.top / kTile)] = 1 / q.format.scale(most);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kGroup; ++j) by[j] = q.format.scale(shared[kRowStep * kTile + t.column + j]);
}

// The factor of one row of the tile: the largest of the 16 threads that share it.
__device__ inline float row_scale(const Quantize& q, const Tile& t, int i) {
  unsigned most = largest_of(t.v[i]);
#pragma unroll
  for (int step = 8; step > 0; step /= 2) {
    const unsigned other = __shfl_xor_sync(kLaneMask, most, step);
    most = other > most ? other : most;
  }
  const float by = q.format.scale(most);
  const Count row = t.top + t.row + i * kRowStep;
  if (t.column == 0 && row < q.rows) q.scale[scale_at(q, row, t.left / kTile)] = 1 / by;
  return by;
}

__global__ void quantize(Quantize q) {
  auto* shared = shared_mem<std::uint8_t>();
  auto* words = reinterpret_cast<unsigned*>(shared + kTile * kPitch);
  const Count across = (q.columns + kTile - 1) / kTile;
  Tile t;
  t.top = blockIdx.x / across * kTile;
  t.left = blockIdx.x % across * kTile;
  t.row = threadIdx.x / (kTile / kGroup);
  t.column = threadIdx.x % (kTile / kGroup) * kGroup;
  const Count rest = q.columns - t.left - t.column;
  const int count = rest <= 0 ? 0 : rest < kGroup ? static_cast<int>(rest) : kGroup;
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i) {
    const Count row = t.top + t.row + i * kRowStep;
    const bool there = row < q.rows && count > 0;
    load(q.x, there ? row : 0, there ? t.left + t.column : 0, there ? count : 0, t.v[i]);
  }
  float by[kGroup];
  const bool by_row = q.scaling == Scaling::along && !q.turned;
  if (q.scaling == Scaling::tensor) {
    const float one = q.format.scale(*q.amax);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) by[j] = one;
    if (blockIdx.x == 0 && threadIdx.x == 0) *q.scale = 1 / one;
  } else if (!by_row) {
    find_scales(q, t, words, by);
  }
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i) {
    if (by_row) {
      const float one = row_scale(q, t, i);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) by[j] = one;
    }
    const unsigned row = t.row + static_cast<unsigned>(i * kRowStep);
    if (q.turned) {
#pragma unroll
      for (unsigned j = 0; j < kGroup; ++j)
        shared[(t.column + j) * kPitch + row] = static_cast<std::uint8_t>(q.format.bits(t.v[i][j], by[j]));
    } else if (t.top + row < q.rows && count == kGroup) {  // whole groups: the sum's length is a multiple of 16
      std::uint64_t word = 0;
#pragma unroll
      for (int j = 0; j < kGroup; ++j) word |= static_cast<std::uint64_t>(q.format.bits(t.v[i][j], by[j])) << (8 * j);
      store8(q.bytes + (t.top + row) * q.inner + t.left + t.column, word);
    }
  }
  if (!q.turned) return;
  __syncthreads();
  // Rows of the result are columns of the tile: 16 threads a row again.
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i) {
    const unsigned outer = t.row + static_cast<unsigned>(i * kRowStep);
    if (t.left + outer >= q.outer || t.top + t.column >= q.inner) continue;
    const auto* from = reinterpret_cast<const std::uint32_t*>(shared + outer * kPitch + t.column);
    store8(q.bytes + (t.left + outer) * q.inner + t.top + t.column, from[0] | static_cast<std::uint64_t>(from[1]) << 32);
  }
}

// A rounding as the library's way of scaling; none where it has no such way.
Scaling scaling_of(const Fp8RoundArgs& r, bool along_rows) {
  if (r.amax) return Scaling::tensor;
  const Count along = along_rows ? r.block_columns : r.block_rows, across = along_rows ? r.block_rows : r.block_columns;
  return along != kTile ? Scaling::none : across == 1 ? Scaling::along : across == kTile ? Scaling::square : Scaling::none;
}

// The operand in its copy: bytes, then scales on the next border of 16.
struct Operand {
  Quantize work;
  Matrix matrix;

  Operand(const Fp8RoundArgs& r, bool along_rows) {
    work.x = elements(r.x);
    work.rows = r.x.dim(0);
    work.columns = r.x.dim(1);
    work.format = {r.format == DType::e4m3, r.margin};
    work.scaling = scaling_of(r, along_rows);
    work.turned = !along_rows;
    work.amax = static_cast<const unsigned*>(r.amax.data);
    work.outer = along_rows ? work.rows : work.columns;
    work.inner = along_rows ? work.columns : work.rows;
    work.bytes = static_cast<std::uint8_t*>(r.out.data);
    work.scale = reinterpret_cast<float*>(work.bytes + work.outer * work.inner);
    matrix = Matrix(View(r.out.data, r.format, {work.outer, work.inner}));
    matrix.scaling = work.scaling;
    matrix.scale = work.scale;
  }

  void queue(const Stream& stream) const {
    launch(stream, quantize,
           {.x = static_cast<unsigned>(ceil_div(work.rows, kTile) * ceil_div(work.columns, kTile)),
            .threads = kTileThreads,
            .shared_bytes = kTileShared},
           work);
  }
};

// What ops/fp8.h promises of hardware.
bool in_hardware(const Fp8GemmArgs& g, const Operand& a, const Operand& b, int capability) {
  const Count m = a.work.outer, n = b.work.outer, k = a.work.inner;
  const Scaling sa = a.work.scaling, sb = b.work.scaling;
  const bool scaled = sa == Scaling::tensor ? sb == Scaling::tensor && capability >= 89
                                            : sa != Scaling::none && sb != Scaling::none && sb != Scaling::tensor &&
                                                  !(sa == Scaling::square && sb == Scaling::square) &&
                                                  capability / 10 == 9 && m % 4 == 0 && n % 4 == 0;
  return scaled && k > 0 && k % 16 == 0 && !(g.a.format == DType::e5m2 && g.b.format == DType::e5m2) &&
         bytes_of(g.c.dtype, n) % 16 == 0 && on_borders(g.c) && on_border(g.a.out.data) && on_border(g.b.out.data);
}

}  // namespace

void fp8_gemm(const Stream& stream, const Fp8GemmArgs& g) {
  const Operand a(g.a, !g.trans_a), b(g.b, g.trans_b);
  const MatmulArgs product{a.matrix, b.matrix, g.c, g.bias, false, true, g.accumulate, g.mode};
  if (in_hardware(g, a, b, mt::cuda::compute_capability(stream.device().index)) && can_matmul(stream, product)) {
    a.queue(stream);
    b.queue(stream);
    return matmul(stream, product);
  }
  fp8_round(stream, g.a);
  fp8_round(stream, g.b);
  gemm(stream, gemm_of_copies(g));
}

}  // namespace mt::ops::cuda
