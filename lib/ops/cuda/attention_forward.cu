// Flash attention on the tensor cores: a block of threads has kQueries rows of one head and goes over the keys it sees
// in tiles, keeping per row the running maximum, sum and unnormalised output in registers.
// Keys of tile j + 1 arrive while values j are multiplied, values j while scores j are made.
// A kernel for sm_90a's own matrix instructions would stand beside this one, chosen in attention_forward, as cuDNN's is.
#include "ops/cuda/attention_tiles.h"
#include "ops/cuda/cudnn_attention.h"
#include "ops/cuda/kernels.h"

namespace mt::ops::cuda {

namespace {

// 16·kTiles query rows a warp, kKeys keys a tile: as many as the registers hold, of which dropout wants some.
template <int kHeadDim, bool kDrops>
struct Shape {
  static constexpr int kDim = kHeadDim, kWarps = 4, kTiles = kDim <= 128 ? 2 : 1,
                       kKeys = kDrops && kDim == 128 ? 32 : 64;
  static constexpr int kQueries = kWarps * kTiles * 16, kBlockThreads = kWarps * 32;
  static constexpr std::size_t kBytes = static_cast<std::size_t>(kQueries + 2 * kKeys) * kPitch<kDim> * 2;
};

// What a thread knows of its rows: of tile m the rows g and g + 8.
template <class S>
struct Rows {
  float max[S::kTiles][2], sum[S::kTiles][2];
  float out[S::kTiles][S::kDim / 8][4];
  int first;  // row g of tile 0, in the sequence
  __device__ int row(int m, int half) const { return first + 16 * m + 8 * half; }
};

template <class S>
__device__ inline void begin(Rows<S>& r, int first) {
  r.first = first;
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m) {
    r.max[m][0] = r.max[m][1] = kLow;
    r.sum[m][0] = r.sum[m][1] = 0;
#pragma unroll
    for (int n = 0; n < S::kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) r.out[m][n][i] = 0;
  }
}

// Scores of keys that a row does not see become −infinity.
template <class S>
__device__ inline void hide(float (&p)[S::kTiles][S::kKeys / 8][4], const Rows<S>& r, const Sequence& s, int key) {
  const int column = key + static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int seen = s.visible(r.row(m, half));
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (column + 8 * n + i >= seen) p[m][n][2 * half + i] = kLow;
    }
}

// The tile joins the running softmax of its rows; scores become probabilities up to e^max.
template <class S>
__device__ inline void soften(float (&p)[S::kTiles][S::kKeys / 8][4], Rows<S>& r, float scale_log2) {
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = r.max[m][half];
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n) most = fmaxf(most, fmaxf(p[m][n][2 * half], p[m][n][2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(kLaneMask, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kLaneMask, most, 2));
      const float base = most == kLow ? 0.0f : most * scale_log2;
      const float shrink = exp2_fast(fused(r.max[m][half], scale_log2, -base));
      r.max[m][half] = most;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float e = exp2_fast(fused(p[m][n][2 * half + i], scale_log2, -base));
          p[m][n][2 * half + i] = e;
          sum += e;
        }
      r.sum[m][half] = fused(r.sum[m][half], shrink, sum);
#pragma unroll
      for (int n = 0; n < S::kDim / 8; ++n) {
        r.out[m][n][2 * half] *= shrink;
        r.out[m][n][2 * half + 1] *= shrink;
      }
    }
}

template <class S>
__device__ inline void drop(float (&p)[S::kTiles][S::kKeys / 8][4], const Rows<S>& r, const ForwardPass& g,
                            const Sequence& s, int head, int key) {
  const int column = key + static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = r.row(m, half);
      if (row >= s.nq) continue;
#pragma unroll 1
      for (int n = 0; n < S::kKeys / 8; ++n) {
        // Indexed by constants alone, so that the scores stay in registers.
        const int at = column + 8 * n;
        const float first = at < s.nk ? g.mask.factor(head, s.q + row, s.k + at) : 0.0f;
        const float second = at + 1 < s.nk ? g.mask.factor(head, s.q + row, s.k + at + 1) : 0.0f;
#pragma unroll
        for (int c = 0; c < S::kKeys / 8; ++c)
          if (c == n) {
            p[m][c][2 * half] *= first;
            p[m][c][2 * half + 1] *= second;
          }
      }
    }
}

template <class T, class S>
__device__ inline void finish(Rows<S>& r, const ForwardPass& g, const Sequence& s, int head) {
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = r.sum[m][half];
      sum += __shfl_xor_sync(kLaneMask, sum, 1);
      sum += __shfl_xor_sync(kLaneMask, sum, 2);
      const int row = r.row(m, half), part = static_cast<int>(threadIdx.x % 4);
      if (row >= s.nq) continue;
      const float by = sum == 0 ? 0.0f : 1.0f / sum;
      if (part == 0)
        g.lse[static_cast<Count>(s.q + row) * g.heads + head] =
            sum == 0 ? kLow : r.max[m][half] * g.scale + log_f32(sum);
#pragma unroll
      for (int n = 0; n < S::kDim / 8; ++n)
        if (8 * n < g.dim)
          put_pair<T>(g.out, s.q + row, head, 8 * n + 2 * part, r.out[m][n][2 * half] * by,
                      r.out[m][n][2 * half + 1] * by);
    }
}

template <class T, class S, bool kDrops>
__global__ void __launch_bounds__(S::kBlockThreads) forward_tiles(ForwardPass g) {
  constexpr int kDim = S::kDim, kKeys = S::kKeys;
  const int head = static_cast<int>(blockIdx.x), group = head / (g.heads / g.groups);
  // Late queries of a causal sequence have the most to do: they come first.
  const Block b = g.sequences.find(false, S::kQueries, static_cast<int>(gridDim.y - 1 - blockIdx.y));
  if (!b.there) return;
  const Sequence& s = b.s;
  T *q = shared_mem<T>(), *k = q + S::kQueries * kPitch<kDim>, *v = k + kKeys * kPitch<kDim>;
  const int warp_row = static_cast<int>(threadIdx.x / 32) * 16 * S::kTiles;
  const int queries = s.nq - b.first < S::kQueries ? s.nq - b.first : S::kQueries;
  const int end = s.visible(b.first + queries - 1);
  const float scale_log2 = g.scale * kLog2e;

  Rows<S> r;
  begin(r, b.first + warp_row + static_cast<int>(threadIdx.x % 32) / 4);
  if (end > 0) {
    load_tile<T, kDim, S::kQueries, S::kBlockThreads>(q, g.q, head, s.q + b.first, queries, g.dim);
    load_tile<T, kDim, kKeys, S::kBlockThreads>(k, g.k, group, s.k, end, g.dim);
    copy_async_commit();
  }
  for (int key = 0; key < end; key += kKeys) {
    copy_async_wait<0>();
    __syncthreads();  // the keys are there, and nobody reads the values before them any more
    load_tile<T, kDim, kKeys, S::kBlockThreads>(v, g.v, group, s.k + key, end - key, g.dim);
    copy_async_commit();
    float p[S::kTiles][kKeys / 8][4];
    multiply_rows<T, kDim, S::kTiles, kKeys / 8>(p, q, warp_row, k);
    // Tiles that every row of the warp sees whole need no look at single keys.
    if (key + kKeys > s.visible(b.first + warp_row)) hide<S>(p, r, s, key);
    soften<S>(p, r, scale_log2);
    if constexpr (kDrops) drop<S>(p, r, g, s, head, key);
    copy_async_wait<0>();
    __syncthreads();  // the values are there, and nobody reads the keys any more
    if (key + kKeys < end) {
      load_tile<T, kDim, kKeys, S::kBlockThreads>(k, g.k, group, s.k + key + kKeys, end - key - kKeys, g.dim);
      copy_async_commit();
    }
    add_product<T, kDim, S::kTiles, kKeys / 8, kDim / 8>(r.out, p, v, 0);
  }
  finish<T>(r, g, s, head);
}

template <class T, bool kDrops>
void start(const Stream& stream, const AttentionForwardArgs& args) {
  const ForwardPass g(args);
  with_dim(g.dim, [&](auto dim) {
    using S = Shape<decltype(dim)::value, kDrops>;
    launch(stream, forward_tiles<T, S, kDrops>,
           {.x = static_cast<unsigned>(g.heads),
            .y = g.sequences.slots(args.q.dim(0), S::kQueries),
            .threads = S::kBlockThreads,
            .shared_bytes = S::kBytes},
           g);
  });
}

// A row is a warp's: it alone reads and writes the row's lse.
struct MergeArgs {
  Elements out, part;
  Count out_head, part_head, heads, rows, dim;
  float* lse;
  const float* part_lse;
};

__global__ void merge_rows(MergeArgs g) {
  const Count row = (static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= g.rows) return;
  const Count token = row / g.heads, head = row % g.heads;
  const float a = g.lse[row], b = g.part_lse[row], max = b <= a ? a : b;
  if (b == kLow) return;
  const float ea = a == kLow ? 0.0f : exp_f32(a - max), eb = exp_f32(b - max), sum = ea + eb;
  const float keep = ea / sum, take = eb / sum;
  for (Count at = static_cast<Count>(threadIdx.x % 32) * kGroup; at < g.dim; at += 32 * kGroup) {
    const int count = g.dim - at < kGroup ? static_cast<int>(g.dim - at) : kGroup;
    float x[kGroup], y[kGroup];
    load(g.out, token, head * g.out_head + at, count, x);
    load(g.part, token, head * g.part_head + at, count, y);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] = x[i] * keep + y[i] * take;
    store(g.out, token, head * g.out_head + at, count, x);
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) g.lse[row] = max + log_f32(sum);
}

}  // namespace

void attention_forward(const Stream& stream, const AttentionForwardArgs& g) {
  if (g.q.size() == 0 || cudnn_attention_forward(stream, g)) return;
  const bool tiles = fits_tiles(g.q) && fits_tiles(g.k) && fits_tiles(g.v) && fits_pairs(g.out) && g.shape.scale > 0;
  if (!tiles) return plain_attention_forward(stream, g);
  const bool is_bf16 = g.q.dtype == DType::bf16, drops = g.shape.dropout.p > 0;
  if (is_bf16 && drops) start<bf16, true>(stream, g);
  else if (is_bf16) start<bf16, false>(stream, g);
  else if (drops) start<f16, true>(stream, g);
  else start<f16, false>(stream, g);
}

void attention_merge(const Stream& stream, const AttentionMergeArgs& g) {
  const Count rows = g.out.dim(0) * g.out.dim(1);
  launch(stream, merge_rows, {.x = static_cast<unsigned>(ceil_div(rows, kThreads / 32)), .threads = kThreads},
         MergeArgs{elements(g.out), elements(g.part_out), g.out.stride(1), g.part_out.stride(1), g.out.dim(1), rows,
                   g.out.dim(2), static_cast<float*>(g.lse.data), static_cast<const float*>(g.part_lse.data)});
}

}  // namespace mt::ops::cuda
