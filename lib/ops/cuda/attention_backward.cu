// Backward of flash attention without atomics: one kernel whose blocks own keys (dk and dv, over the query heads of a
// group in order), one whose blocks own queries (dq). Scores are made again in both: 7 products for the 5 there are,
// and the same bits every time. The scores of the first lie transposed in the registers, so that they are at once the
// left operand of what follows.
#include "ops/cuda/attention_tiles.h"
#include "ops/cuda/cudnn_attention.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

// Where the head dim is too long for a warp's registers, two warps share 16 keys and each has half of dk and dv.
template <int kHeadDim>
struct KeyShape {
  static constexpr int kDim = kHeadDim, kSplit = kDim <= 128 ? 1 : 2, kWarps = 8, kKeys = kWarps / kSplit * 16;
  static constexpr int kQueries = kDim <= 64 ? 64 : 32, kOut = kDim / kSplit / 8, kBlockThreads = kWarps * 32;
  static constexpr std::size_t kBytes =
      static_cast<std::size_t>(2 * kKeys + 4 * kQueries) * kPitch<kDim> * 2 + 16 * kQueries;
};

template <int kHeadDim>
struct QueryShape {
  static constexpr int kDim = kHeadDim, kWarps = kDim <= 128 ? 8 : 4, kQueries = kWarps * 16;
  static constexpr int kKeys = kDim <= 128 ? 64 : 32, kBlockThreads = kWarps * 32;
  static constexpr std::size_t kBytes = static_cast<std::size_t>(2 * kQueries + 4 * kKeys) * kPitch<kDim> * 2;
};

// What a block of keys goes through: query tiles of one head after another.
template <class T, class S>
struct QueryTiles {
  const BackwardPass& g;
  const Sequence& s;
  int first_head, first_query, each, count;
  T *q, *dout;         // two of each
  float *lse, *delta;  // two rows of kQueries each; lse in powers of two, infinite where there is no query

  __device__ QueryTiles(const BackwardPass& pass, const Block& b, int group, T* memory)
      : g(pass), s(b.s), first_head(group * (g.heads / g.groups)) {
    first_query = s.first_seeing(b.first) / S::kQueries * S::kQueries;
    each = first_query < s.nq ? (s.nq - first_query + S::kQueries - 1) / S::kQueries : 0;
    count = b.first < s.nk ? each * (g.heads / g.groups) : 0;
    q = memory;
    dout = q + 2 * S::kQueries * kPitch<S::kDim>;
    lse = reinterpret_cast<float*>(dout + 2 * S::kQueries * kPitch<S::kDim>);
    delta = lse + 2 * S::kQueries;
  }
  __device__ int head(int i) const { return first_head + i / each; }
  __device__ int query(int i) const { return first_query + i % each * S::kQueries; }

  __device__ void fetch(int i) const {
    const int from = query(i), valid = s.nq - from, place = i % 2 * S::kQueries;
    load_tile<T, S::kDim, S::kQueries, S::kBlockThreads>(q + place * kPitch<S::kDim>, g.q, head(i), s.q + from, valid,
                                                         g.dim);
    load_tile<T, S::kDim, S::kQueries, S::kBlockThreads>(dout + place * kPitch<S::kDim>, g.dout, head(i), s.q + from,
                                                         valid, g.dim);
    copy_async_commit();
    const int row = static_cast<int>(threadIdx.x);
    if (row >= S::kQueries) return;
    const Count at = static_cast<Count>(s.q + from + row) * g.heads + head(i);
    const float e = row < valid ? g.lse[at] : kLow;
    lse[place + row] = e == kLow ? -kLow : e * kLog2e;
    delta[place + row] = row < valid ? g.delta[at] : 0.0f;
  }
};

// Scores to probabilities and their gradients, transposed: rows are keys, columns queries.
template <class S, bool kDrops, class Tiles>
__device__ inline void turn_back(float (&p)[1][S::kQueries / 8][4], float (&ds)[1][S::kQueries / 8][4], const Tiles& t,
                                 int i, int key, bool look) {
  const float scale_log2 = t.g.scale * kLog2e;
  const int lane = static_cast<int>(threadIdx.x % 32), head = t.head(i), query = t.query(i),
            place = i % 2 * S::kQueries;
#pragma unroll
  for (int n = 0; n < S::kQueries / 8; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = 8 * n + lane % 4 * 2 + c % 2, own_key = key + lane / 4 + c / 2 * 8;
      float& e = p[0][n][c];
      e = exp2_fast(fused(e, scale_log2, -t.lse[place + column]));
      if (look && own_key >= t.s.visible(query + column)) e = 0;
      float keep = 1;
      if constexpr (kDrops)
        keep = own_key < t.s.nk && query + column < t.s.nq
                   ? t.g.mask.factor(head, t.s.q + query + column, t.s.k + own_key)
                   : 0.0f;
      ds[0][n][c] = e * (ds[0][n][c] * keep - t.delta[place + column]);
      if constexpr (kDrops) e *= keep;
    }
}

template <int kRows, int kColumns>
__device__ inline void clear(float (&x)[kRows][kColumns][4]) {
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[m][n][i] = 0;
}

template <int kColumns>
__device__ inline void multiply(float (&x)[1][kColumns][4], float by) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) x[0][n][i] *= by;
}

// Fragments of 16 rows from `row` of a sequence, columns from `first_column`, to a result.
template <class T, int kColumns>
__device__ inline void put_rows(const Heads& to, const float (&x)[1][kColumns][4], int token, int head, int row,
                                int rows, int first_column, int dim) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = row + lane / 4 + 8 * half;
    if (own >= rows) continue;
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
      if (first_column + 8 * n < dim)
        put_pair<T>(to, token + own, head, first_column + 8 * n + lane % 4 * 2, x[0][n][2 * half],
                    x[0][n][2 * half + 1]);
  }
}

template <class T, class S, bool kDrops>
__global__ void __launch_bounds__(S::kBlockThreads, 1) backward_keys(BackwardPass g) {
  constexpr int kDim = S::kDim;
  const int group = static_cast<int>(blockIdx.x);
  const Block b = g.sequences.find(true, S::kKeys, static_cast<int>(blockIdx.y));
  if (!b.there) return;
  T *k = shared_mem<T>(), *v = k + S::kKeys * kPitch<kDim>;
  const QueryTiles<T, S> tiles(g, b, group, v + S::kKeys * kPitch<kDim>);
  const int warp = static_cast<int>(threadIdx.x / 32), row = warp / S::kSplit * 16,
            column = warp % S::kSplit * S::kOut * 8;

  float dk[1][S::kOut][4], dv[1][S::kOut][4];
  clear(dk);
  clear(dv);
  if (tiles.count > 0) {
    load_tile<T, kDim, S::kKeys, S::kBlockThreads>(k, g.k, group, b.s.k + b.first, b.s.nk - b.first, g.dim);
    load_tile<T, kDim, S::kKeys, S::kBlockThreads>(v, g.v, group, b.s.k + b.first, b.s.nk - b.first, g.dim);
    tiles.fetch(0);
  }
  for (int i = 0; i < tiles.count; ++i) {
    copy_async_wait<0>();
    __syncthreads();  // tile i is there, and nobody reads tile i − 1 any more
    if (i + 1 < tiles.count) tiles.fetch(i + 1);
    const T *q = tiles.q + i % 2 * S::kQueries * kPitch<kDim>, *dout = tiles.dout + i % 2 * S::kQueries * kPitch<kDim>;
    float p[1][S::kQueries / 8][4], ds[1][S::kQueries / 8][4];
    multiply_rows<T, kDim, 1, S::kQueries / 8>(p, k, row, q);
    multiply_rows<T, kDim, 1, S::kQueries / 8>(ds, v, row, dout);
    turn_back<S, kDrops>(p, ds, tiles, i, b.first + row, b.first + S::kKeys > b.s.visible(tiles.query(i)));
    add_product<T, kDim, 1, S::kQueries / 8, S::kOut>(dv, p, dout, column);
    add_product<T, kDim, 1, S::kQueries / 8, S::kOut>(dk, ds, q, column);
  }
  multiply(dk, g.scale);
  put_rows<T>(g.dk, dk, b.s.k, group, b.first + row, b.s.nk_all, column, g.dim);
  put_rows<T>(g.dv, dv, b.s.k, group, b.first + row, b.s.nk_all, column, g.dim);
}

// The same with rows that are queries: each thread has two of them.
struct QueryRows {
  int row[2];
  float lse[2], delta[2];
  __device__ QueryRows(const BackwardPass& g, const Sequence& s, int first, int head) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row[half] = first + static_cast<int>(threadIdx.x % 32) / 4 + 8 * half;
      const bool there = row[half] < s.nq;
      const Count at = static_cast<Count>(s.q + row[half]) * g.heads + head;
      const float e = there ? g.lse[at] : kLow;
      lse[half] = e == kLow ? -kLow : e * kLog2e;
      delta[half] = there ? g.delta[at] : 0.0f;
    }
  }
};

template <class S, bool kDrops>
__device__ inline void turn_back_rows(float (&p)[1][S::kKeys / 8][4], float (&ds)[1][S::kKeys / 8][4],
                                      const QueryRows& r, const BackwardPass& g, const Sequence& s, int head, int key) {
#pragma unroll
  for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int half = c / 2, own_key = key + 8 * n + static_cast<int>(threadIdx.x % 4) * 2 + c % 2;
      float e = exp2_fast(fused(p[0][n][c], g.scale * kLog2e, -r.lse[half]));
      if (own_key >= s.visible(r.row[half])) e = 0;
      float keep = 1;
      if constexpr (kDrops)
        keep = own_key < s.nk && r.row[half] < s.nq ? g.mask.factor(head, s.q + r.row[half], s.k + own_key) : 0.0f;
      ds[0][n][c] = e * (ds[0][n][c] * keep - r.delta[half]);
    }
}

template <class T, class S, bool kDrops>
__global__ void __launch_bounds__(S::kBlockThreads, 1) backward_queries(BackwardPass g) {
  constexpr int kDim = S::kDim, kKeys = S::kKeys;
  const int head = static_cast<int>(blockIdx.x), group = head / (g.heads / g.groups);
  const Block b = g.sequences.find(false, S::kQueries, static_cast<int>(gridDim.y - 1 - blockIdx.y));
  if (!b.there) return;
  const Sequence& s = b.s;
  T *q = shared_mem<T>(), *dout = q + S::kQueries * kPitch<kDim>, *k = dout + S::kQueries * kPitch<kDim>,
    *v = k + 2 * kKeys * kPitch<kDim>;
  const int queries = s.nq - b.first < S::kQueries ? s.nq - b.first : S::kQueries;
  const int end = s.visible(b.first + queries - 1), row = static_cast<int>(threadIdx.x / 32) * 16;
  const auto fetch = [&](int key) {
    const int place = key / kKeys % 2 * kKeys * kPitch<kDim>;
    load_tile<T, kDim, kKeys, S::kBlockThreads>(k + place, g.k, group, s.k + key, end - key, g.dim);
    load_tile<T, kDim, kKeys, S::kBlockThreads>(v + place, g.v, group, s.k + key, end - key, g.dim);
    copy_async_commit();
  };

  float dq[1][kDim / 8][4];
  clear(dq);
  if (end > 0) {
    load_tile<T, kDim, S::kQueries, S::kBlockThreads>(q, g.q, head, s.q + b.first, queries, g.dim);
    load_tile<T, kDim, S::kQueries, S::kBlockThreads>(dout, g.dout, head, s.q + b.first, queries, g.dim);
    fetch(0);
  }
  const QueryRows r(g, s, b.first + row, head);
  for (int key = 0; key < end; key += kKeys) {
    copy_async_wait<0>();
    __syncthreads();  // these keys and values are there, and nobody reads those before any more
    if (key + kKeys < end) fetch(key + kKeys);
    const int place = key / kKeys % 2 * kKeys * kPitch<kDim>;
    float p[1][kKeys / 8][4], ds[1][kKeys / 8][4];
    multiply_rows<T, kDim, 1, kKeys / 8>(p, q, row, k + place);
    multiply_rows<T, kDim, 1, kKeys / 8>(ds, dout, row, v + place);
    turn_back_rows<S, kDrops>(p, ds, r, g, s, head, key);
    add_product<T, kDim, 1, kKeys / 8, kDim / 8>(dq, ds, k + place, 0);
  }
  multiply(dq, g.scale);
  put_rows<T>(g.dq, dq, s.q, head, b.first + row, s.nq, 0, g.dim);
}

template <class T, bool kDrops>
void start(const Stream& stream, const AttentionBackwardArgs& args, const float* delta) {
  const BackwardPass g(args, delta);
  with_dim(g.dim, [&](auto dim) {
    using K = KeyShape<decltype(dim)::value>;
    using Q = QueryShape<decltype(dim)::value>;
    launch(stream, backward_keys<T, K, kDrops>,
           {.x = static_cast<unsigned>(g.groups),
            .y = g.sequences.slots(args.k.dim(0), K::kKeys),
            .threads = K::kBlockThreads,
            .shared_bytes = K::kBytes},
           g);
    launch(stream, backward_queries<T, Q, kDrops>,
           {.x = static_cast<unsigned>(g.heads),
            .y = g.sequences.slots(args.q.dim(0), Q::kQueries),
            .threads = Q::kBlockThreads,
            .shared_bytes = Q::kBytes},
           g);
  });
}

// delta of every row, a warp a row.
__global__ void row_deltas(Heads dout, Heads out, Count rows, int heads, int dim, float* delta) {
  const Count row = (static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x % 32); i < dim; i += 32)
    sum += dout.get(row / heads, row % heads, i) * out.get(row / heads, row % heads, i);
  sum = over_warp(sum, Sum{});
  if (threadIdx.x % 32 == 0) delta[row] = sum;
}

}  // namespace

void attention_backward(const Stream& stream, const AttentionBackwardArgs& args) {
  if (cudnn_attention_backward(stream, args)) return;
  AttentionBackwardArgs g = args;
  const Count tq = g.q.dim(0), heads = g.q.dim(1), rows = tq * heads;
  bool tiles = fits_tiles(g.q) && fits_tiles(g.k) && fits_tiles(g.v) && g.shape.scale > 0;
  for (const View* x : {&g.dq, &g.dk, &g.dv}) tiles = tiles && fits_pairs(*x);
  // Gradients that came in f32 are rounded for the tensor cores.
  const bool rounds = tiles && !fits_tiles(g.dout);
  const std::size_t delta_bytes = (static_cast<std::size_t>(rows) * sizeof(float) + 255) / 256 * 256;
  const std::size_t rounded_bytes = rounds ? static_cast<std::size_t>(g.q.size()) * 2 : 0;
  std::byte* memory = mt::cuda::scratch(stream, delta_bytes + rounded_bytes + 256);
  auto* delta = reinterpret_cast<float*>(memory);
  launch(stream, row_deltas, {.x = static_cast<unsigned>(ceil_div(rows, kThreads / 32)), .threads = kThreads},
         Heads(g.dout), Heads(g.out), rows, static_cast<int>(heads), static_cast<int>(g.q.dim(2)), delta);
  if (!tiles) return plain_attention_backward(stream, g, delta);
  if (rounds && rows > 0) {
    const View rounded(memory + delta_bytes, g.q.dtype, g.q.shape);
    cast(stream, {g.dout, rounded});
    g.dout = rounded;
  }
  const bool is_bf16 = g.q.dtype == DType::bf16, drops = g.shape.dropout.p > 0;
  if (is_bf16 && drops) start<bf16, true>(stream, g, delta);
  else if (is_bf16) start<bf16, false>(stream, g, delta);
  else if (drops) start<f16, true>(stream, g, delta);
  else start<f16, false>(stream, g, delta);
}

}  // namespace mt::ops::cuda
