// Products of fp8 operands by cuBLASLt, where the device has them; by rounding and a product in bf16 elsewhere.
//
// The library wants both operands along the sum ("TN") on every device that has fp8 and the block scales of Hopper, so an
// operand is laid out so while it is rounded: a block of threads takes a tile of 128x128, reads it once, finds what its
// scales come of, and writes bytes, for one of both directions or for both, turned over in shared memory where the sum goes
// down the columns.
#include "ops/cuda/fp8_format.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

constexpr int kTile = 128, kTileThreads = 256, kRowStep = kTileThreads / (kTile / kGroup),
              kGroupsEach = kTile / kRowStep;  // 16 threads a row, 8 groups each
constexpr unsigned kPitch = kTile + 4;         // bytes of a turned row: neighbours of a column lie in other banks
constexpr unsigned kColumnWords = (kRowStep + 1) * kTile;  // of column_scales; then those of find_largest
constexpr unsigned kTileShared = kTile * kPitch + kColumnWords * 4 + 33 * 4;

// A copy of an operand: bytes [outer, inner] along the sum, and what they are multiplied with.
struct Copy {
  std::uint8_t* bytes = nullptr;
  float* scale = nullptr;
};

// Copies of x [rows, columns], for sums along its rows and down its columns, either absent.
struct Quantize {
  Elements x;
  Count rows, columns;
  Format format;
  Fp8Scaling scaling;
  const unsigned* amax;  // of Fp8Scaling::tensor
  unsigned* seen;        // or absent
  Copy along, down;
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

// Where the scale of a block of the sum lies: of one of `outer` lines, or of a square in a sum of `inner`.
__device__ inline Count line_scale(Count outer, Count line, Count block) { return block * outer + line; }
__device__ inline Count square_scale(Count inner, Count square, Count block) {
  const Count blocks = (inner + kTile - 1) / kTile;
  return square * ((blocks + 3) / 4 * 4) + block;
}

__device__ inline Tile load_tile(const Quantize& q) {
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
  return t;
}

// The largest of the tile goes to `seen` and, of squares, makes the factor of all of it.
__device__ inline float find_largest(const Quantize& q, const Tile& t, unsigned* words) {
  unsigned most = 0;
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i) {
    const unsigned here = largest_of(t.v[i]);
    most = here > most ? here : most;
  }
  if (threadIdx.x == 0) words[32] = 0;  // the same thread notes the largest there
  note_largest(most, words, words + 32);
  if (q.seen != nullptr && threadIdx.x == 0) atomicMax(q.seen, words[32]);
  if (q.scaling != Fp8Scaling::squares) return 1;
  __syncthreads();
  const float one = q.format.scale(words[32]);
  if (threadIdx.x == 0) {
    if (q.along.bytes != nullptr) q.along.scale[square_scale(q.columns, t.top / kTile, t.left / kTile)] = 1 / one;
    if (q.down.bytes != nullptr) q.down.scale[square_scale(q.rows, t.left / kTile, t.top / kTile)] = 1 / one;
  }
  return one;
}

// The factors of a thread's columns: the largest of its own rows, then of the threads above each other.
__device__ inline void column_scales(const Quantize& q, const Tile& t, unsigned* words, float (&by)[kGroup]) {
  const unsigned line = threadIdx.x / (kTile / kGroup);
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < kGroupsEach; ++i) most = magnitude(t.v[i][j]) > most ? magnitude(t.v[i][j]) : most;
    words[line * kTile + t.column + j] = most;
  }
  __syncthreads();
  if (threadIdx.x < kTile) {
    unsigned most = 0;
    for (unsigned l = 0; l < kRowStep; ++l) {
      const unsigned here = words[l * kTile + threadIdx.x];
      most = here > most ? here : most;
    }
    words[kRowStep * kTile + threadIdx.x] = most;
    if (t.left + threadIdx.x < q.columns)
      q.down.scale[line_scale(q.columns, t.left + threadIdx.x, t.top / kTile)] = 1 / q.format.scale(most);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kGroup; ++j) by[j] = q.format.scale(words[kRowStep * kTile + t.column + j]);
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
  if (t.column == 0 && row < q.rows) q.along.scale[line_scale(q.rows, row, t.left / kTile)] = 1 / by;
  return by;
}

// A thread's rows of the copy along them: whole groups, for the sum's length is a multiple of 16.
__device__ inline void store_along(const Quantize& q, const Tile& t, float one) {
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i) {
    const float by = q.scaling == Fp8Scaling::lines ? row_scale(q, t, i) : one;
    const Count row = t.top + t.row + i * kRowStep;
    if (row >= q.rows || t.left + t.column + kGroup > q.columns) continue;
    std::uint64_t word = 0;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) word |= static_cast<std::uint64_t>(q.format.bits(t.v[i][j], by)) << (8 * j);
    store8(q.along.bytes + row * q.columns + t.left + t.column, word);
  }
}

// Rows of the copy down the columns are columns of the tile: turned over in shared memory, then 16 threads a row again.
__device__ inline void store_down(const Quantize& q, const Tile& t, std::uint8_t* turned, const float (&by)[kGroup]) {
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i)
#pragma unroll
    for (unsigned j = 0; j < kGroup; ++j)
      turned[(t.column + j) * kPitch + t.row + static_cast<unsigned>(i * kRowStep)] =
          static_cast<std::uint8_t>(q.format.bits(t.v[i][j], by[j]));
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kGroupsEach; ++i) {
    const unsigned outer = t.row + static_cast<unsigned>(i * kRowStep);
    if (t.left + outer >= q.columns || t.top + t.column >= q.rows) continue;
    const auto* from = reinterpret_cast<const std::uint32_t*>(turned + outer * kPitch + t.column);
    store8(q.down.bytes + (t.left + outer) * q.rows + t.top + t.column,
           from[0] | static_cast<std::uint64_t>(from[1]) << 32);
  }
}

__global__ void quantize(Quantize q) {
  auto* shared = shared_mem<std::uint8_t>();
  auto* words = reinterpret_cast<unsigned*>(shared + kTile * kPitch);
  const Tile t = load_tile(q);
  float one = 1, by[kGroup];
  if (q.seen != nullptr || q.scaling == Fp8Scaling::squares) one = find_largest(q, t, words + kColumnWords);
  if (q.scaling == Fp8Scaling::tensor) {
    one = q.format.scale(*q.amax);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      if (q.along.bytes != nullptr) *q.along.scale = 1 / one;
      if (q.down.bytes != nullptr) *q.down.scale = 1 / one;
    }
  }
  if (q.along.bytes != nullptr) store_along(q, t, one);
  if (q.down.bytes == nullptr) return;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) by[j] = one;
  if (q.scaling == Fp8Scaling::lines) column_scales(q, t, words, by);
  store_down(q, t, shared, by);
}

Copy bytes_of_copy(const Fp8Matrix& m, bool along_rows) {
  const Fp8Matrix::Copy& c = m.copy(along_rows);
  if (!c.memory || c.form != Fp8Form::bytes) return {};
  auto* bytes = static_cast<std::uint8_t*>(c.memory.data);
  return {bytes, reinterpret_cast<float*>(bytes + m.rows * m.columns)};
}

Scaling scaling_of(Fp8Scaling s) {
  return s == Fp8Scaling::tensor ? Scaling::tensor : s == Fp8Scaling::lines ? Scaling::along : Scaling::square;
}

// An operand of the product, as bytes.
Matrix matrix_of(const Fp8Matrix& m, bool along_rows) {
  void* bytes = m.copy(along_rows).memory.data;
  Matrix out(View(bytes, m.format, {m.outer(along_rows), m.inner(along_rows)}));
  out.scaling = scaling_of(m.scaling);
  out.scale = reinterpret_cast<const float*>(static_cast<const std::uint8_t*>(bytes) + m.rows * m.columns);
  return out;
}

MatmulArgs product_of(const Fp8GemmArgs& g) {
  return {matrix_of(g.a, !g.trans_a), matrix_of(g.b, g.trans_b), g.c, g.bias, false, true, g.accumulate, g.mode};
}

// What ops/fp8.h promises of hardware.
bool in_hardware(const Fp8GemmArgs& g, int capability) {
  const Count m = g.c.dim(0), n = g.c.dim(1), k = g.a.inner(!g.trans_a);
  const Fp8Scaling sa = g.a.scaling, sb = g.b.scaling;
  const bool scaled = sa == Fp8Scaling::tensor
                          ? sb == Fp8Scaling::tensor && capability >= 89
                          : sb != Fp8Scaling::tensor && !(sa == Fp8Scaling::squares && sb == Fp8Scaling::squares) &&
                                capability / 10 == 9 && m % 4 == 0 && n % 4 == 0;
  return scaled && k > 0 && k % 16 == 0 && !(g.a.format == DType::e5m2 && g.b.format == DType::e5m2) &&
         bytes_of(g.c.dtype, n) % 16 == 0 && on_borders(g.c) && on_border(g.a.copy(!g.trans_a).memory.data) &&
         on_border(g.b.copy(g.trans_b).memory.data);
}

}  // namespace

void fp8_form(const Stream& stream, const Fp8FormArgs& g) {
  const bool bytes = in_hardware(g.product, mt::cuda::compute_capability(stream.device().index)) &&
                     can_matmul(stream, product_of(g.product));
  g.form = bytes ? Fp8Form::bytes : Fp8Form::rounded;
}

void fp8_quantize(const Stream& stream, const Fp8QuantizeArgs& g) {
  const Quantize q{elements(g.x),
                   g.to.rows,
                   g.to.columns,
                   {g.to.format == DType::e4m3, g.margin},
                   g.to.scaling,
                   static_cast<const unsigned*>(g.amax.data),
                   static_cast<unsigned*>(g.seen.data),
                   bytes_of_copy(g.to, true),
                   bytes_of_copy(g.to, false)};
  if (q.along.bytes != nullptr || q.down.bytes != nullptr)
    launch(stream, quantize,
           {.x = static_cast<unsigned>(ceil_div(q.rows, kTile) * ceil_div(q.columns, kTile)),
            .threads = kTileThreads,
            .shared_bytes = kTileShared},
           q);
  else if (g.seen)
    abs_max(stream, {g.x, g.seen});
  for (const Fp8RoundArgs& r : rounded_copies(g))
    if (r.out) fp8_round(stream, r);
}

void fp8_gemm(const Stream& stream, const Fp8GemmArgs& g) {
  if (g.a.copy(!g.trans_a).form == Fp8Form::bytes) return matmul(stream, product_of(g));
  gemm(stream, gemm_of_copies(g));
}

}  // namespace mt::ops::cuda
