// Attention for any head size and dtype: blocks of kQueries by kKeys scores in f32 shared memory, one thread a score.
// What the tensor cores cannot take (f32, odd head sizes, rows off the borders) comes here.
#include "ops/cuda/attention_blocks.h"

namespace mt::ops::cuda {

namespace {

constexpr int kQueries = 16, kKeys = 16, kPlainThreads = 128;

// Rows [first, first + rows) of a head as f32, zeros beyond `valid` rows.
__device__ inline void load_rows(const Heads& x, int head, int token, int valid, int rows, int dim, float factor,
                                 float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * dim; i += kPlainThreads) {
    const int r = i / dim, c = i % dim;
    to[r * (dim + 1) + c] = r < valid ? x.get(token + r, head, c) * factor : 0.0f;
  }
}

__device__ inline void clear(float* x, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kPlainThreads) x[i] = 0;
}

__device__ inline float dot(const float* a, const float* b, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// One row of scores joins the running softmax; scores become probabilities up to e^max, the factor is that of the past.
__device__ inline void soften(const ForwardPass& g, int head, int query, int key, float* p, float& max, float& sum,
                              float& shrink) {
  float here = max;
  for (int c = 0; c < kKeys; ++c) here = p[c] <= here ? here : p[c];
  shrink = 1;
  if (here == kLow) {
    for (int c = 0; c < kKeys; ++c) p[c] = 0;
    return;
  }
  if (here != max) shrink = max == kLow ? 0.0f : exp_f32(max - here);
  sum *= shrink;
  max = here;
  for (int c = 0; c < kKeys; ++c) {
    const bool seen = p[c] != kLow;
    p[c] = exp_f32(p[c] - max);
    sum += p[c];
    if (g.drops && seen) p[c] *= g.mask.factor(head, query, key + c);
  }
}

__global__ void forward_rows(ForwardPass g) {
  const int head = static_cast<int>(blockIdx.x), group = head / (g.heads / g.groups),
            thread = static_cast<int>(threadIdx.x);
  const Block b = g.sequences.find(false, kQueries, static_cast<int>(gridDim.y - 1 - blockIdx.y));
  if (!b.there) return;
  const int queries = b.s.nq - b.first < kQueries ? b.s.nq - b.first : kQueries, pitch = g.dim + 1;
  float *q = shared_mem<float>(), *k = q + kQueries * pitch, *v = k + kKeys * pitch, *out = v + kKeys * pitch,
        *p = out + kQueries * pitch, *shrink = p + kQueries * kKeys, *sums = shrink + kQueries;
  load_rows(g.q, head, b.s.q + b.first, queries, kQueries, g.dim, g.scale, q);
  clear(out, kQueries * pitch);
  float max = kLow, sum = 0;
  const int end = b.s.visible(b.first + queries - 1);
  for (int key = 0; key < end; key += kKeys) {
    const int keys = end - key < kKeys ? end - key : kKeys;
    __syncthreads();
    load_rows(g.k, group, b.s.k + key, keys, kKeys, g.dim, 1, k);
    load_rows(g.v, group, b.s.k + key, keys, kKeys, g.dim, 1, v);
    __syncthreads();
    for (int i = thread; i < kQueries * kKeys; i += kPlainThreads) {
      const int r = i / kKeys, c = i % kKeys;
      const bool seen = r < queries && key + c < b.s.visible(b.first + r);
      p[i] = seen ? dot(q + r * pitch, k + c * pitch, g.dim) : kLow;
    }
    __syncthreads();
    if (thread < kQueries)
      soften(g, head, b.s.q + b.first + (thread < queries ? thread : 0), b.s.k + key, p + thread * kKeys, max, sum,
             shrink[thread]);
    __syncthreads();
    for (int i = thread; i < kQueries * g.dim; i += kPlainThreads) {
      const int r = i / g.dim, c = i % g.dim;
      float o = out[r * pitch + c] * shrink[r];
      for (int j = 0; j < keys; ++j) o += p[r * kKeys + j] * v[j * pitch + c];
      out[r * pitch + c] = o;
    }
  }
  if (thread < queries) {
    sums[thread] = sum;
    g.lse[static_cast<Count>(b.s.q + b.first + thread) * g.heads + head] = sum == 0 ? kLow : max + log_f32(sum);
  }
  __syncthreads();
  for (int i = thread; i < queries * g.dim; i += kPlainThreads) {
    const int r = i / g.dim, c = i % g.dim;
    g.out.put(b.s.q + b.first + r, head, c, sums[r] == 0 ? 0.0f : out[r * pitch + c] * (1.0f / sums[r]));
  }
}

// A block of scores on the way back, in shared memory: p as dv sees it, and ds.
struct Scores {
  float *p, *ds;
};

__device__ inline void score_block(const BackwardPass& g, const Sequence& s, int head, int query, int key,
                                   const float* q, const float* dout, const float* k, const float* v,
                                   const Scores& to) {
  const int pitch = g.dim + 1;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * kKeys; i += kPlainThreads) {
    const int r = i / kKeys, c = i % kKeys;
    float p = 0, ds = 0;
    if (query + r < s.nq && key + c < s.visible(query + r)) {
      const Count row = static_cast<Count>(s.q + query + r) * g.heads + head;
      const float lse = g.lse[row];
      if (lse != kLow) {
        p = exp_f32(dot(q + r * pitch, k + c * pitch, g.dim) - lse);
        const float keep = g.drops ? g.mask.factor(head, s.q + query + r, s.k + key + c) : 1.0f;
        ds = p * (dot(dout + r * pitch, v + c * pitch, g.dim) * keep - g.delta[row]);
        p *= keep;
      }
    }
    to.p[i] = p;
    to.ds[i] = ds;
  }
}

__global__ void backward_keys(BackwardPass g) {
  const int group = static_cast<int>(blockIdx.x), each = g.heads / g.groups, thread = static_cast<int>(threadIdx.x);
  const Block b = g.sequences.find(true, kKeys, static_cast<int>(blockIdx.y));
  if (!b.there) return;
  const int all = b.s.nk_all - b.first < kKeys ? b.s.nk_all - b.first : kKeys, used = b.s.nk - b.first,
            pitch = g.dim + 1;
  float *k = shared_mem<float>(), *v = k + kKeys * pitch, *q = v + kKeys * pitch, *dout = q + kQueries * pitch,
        *dk = dout + kQueries * pitch, *dv = dk + kKeys * pitch;
  const Scores scores{dv + kKeys * pitch, dv + kKeys * pitch + kQueries * kKeys};
  load_rows(g.k, group, b.s.k + b.first, all, kKeys, g.dim, 1, k);
  load_rows(g.v, group, b.s.k + b.first, all, kKeys, g.dim, 1, v);
  clear(dk, 2 * kKeys * pitch);
  for (int head = group * each; head < (group + 1) * each && used > 0; ++head)
    for (int query = b.s.first_seeing(b.first) / kQueries * kQueries; query < b.s.nq; query += kQueries) {
      const int queries = b.s.nq - query < kQueries ? b.s.nq - query : kQueries;
      __syncthreads();
      load_rows(g.q, head, b.s.q + query, queries, kQueries, g.dim, g.scale, q);
      load_rows(g.dout, head, b.s.q + query, queries, kQueries, g.dim, 1, dout);
      __syncthreads();
      score_block(g, b.s, head, query, b.first, q, dout, k, v, scores);
      __syncthreads();
      for (int i = thread; i < kKeys * g.dim; i += kPlainThreads) {
        const int j = i / g.dim, c = i % g.dim;
        float sum_k = dk[j * pitch + c], sum_v = dv[j * pitch + c];
        for (int r = 0; r < queries; ++r) {
          sum_k += scores.ds[r * kKeys + j] * q[r * pitch + c];
          sum_v += scores.p[r * kKeys + j] * dout[r * pitch + c];
        }
        dk[j * pitch + c] = sum_k;
        dv[j * pitch + c] = sum_v;
      }
    }
  __syncthreads();
  for (int i = thread; i < all * g.dim; i += kPlainThreads) {
    const int j = i / g.dim, c = i % g.dim;
    g.dk.put(b.s.k + b.first + j, group, c, dk[j * pitch + c]);
    g.dv.put(b.s.k + b.first + j, group, c, dv[j * pitch + c]);
  }
}

__global__ void backward_queries(BackwardPass g) {
  const int head = static_cast<int>(blockIdx.x), group = head / (g.heads / g.groups),
            thread = static_cast<int>(threadIdx.x);
  const Block b = g.sequences.find(false, kQueries, static_cast<int>(gridDim.y - 1 - blockIdx.y));
  if (!b.there) return;
  const int queries = b.s.nq - b.first < kQueries ? b.s.nq - b.first : kQueries, pitch = g.dim + 1;
  float *q = shared_mem<float>(), *dout = q + kQueries * pitch, *k = dout + kQueries * pitch, *v = k + kKeys * pitch,
        *dq = v + kKeys * pitch;
  const Scores scores{dq + kQueries * pitch, dq + kQueries * pitch + kQueries * kKeys};
  load_rows(g.q, head, b.s.q + b.first, queries, kQueries, g.dim, g.scale, q);
  load_rows(g.dout, head, b.s.q + b.first, queries, kQueries, g.dim, 1, dout);
  clear(dq, kQueries * pitch);
  const int end = b.s.visible(b.first + queries - 1);
  for (int key = 0; key < end; key += kKeys) {
    const int keys = end - key < kKeys ? end - key : kKeys;
    __syncthreads();
    load_rows(g.k, group, b.s.k + key, keys, kKeys, g.dim, 1, k);
    load_rows(g.v, group, b.s.k + key, keys, kKeys, g.dim, 1, v);
    __syncthreads();
    score_block(g, b.s, head, b.first, key, q, dout, k, v, scores);
    __syncthreads();
    for (int i = thread; i < kQueries * g.dim; i += kPlainThreads) {
      const int r = i / g.dim, c = i % g.dim;
      float sum = dq[r * pitch + c];
      for (int j = 0; j < keys; ++j) sum += scores.ds[r * kKeys + j] * k[j * pitch + c];
      dq[r * pitch + c] = sum;
    }
  }
  __syncthreads();
  for (int i = thread; i < queries * g.dim; i += kPlainThreads) {
    const int r = i / g.dim, c = i % g.dim;
    g.dq.put(b.s.q + b.first + r, head, c, dq[r * pitch + c] * g.scale);
  }
}

Grid grid_of(unsigned heads, unsigned slots, int row_blocks, int dim) {
  const auto rows = static_cast<std::size_t>(row_blocks) * kQueries * static_cast<std::size_t>(dim + 1);
  return {.x = heads,
          .y = slots,
          .threads = kPlainThreads,
          .shared_bytes = (rows + 2 * kQueries * kKeys + 2 * kQueries) * sizeof(float)};
}

}  // namespace

void plain_attention_forward(const Stream& stream, const AttentionForwardArgs& args) {
  const ForwardPass g(args);
  launch(stream, forward_rows,
         grid_of(static_cast<unsigned>(g.heads), g.sequences.slots(args.q.dim(0), kQueries), 4, g.dim), g);
}

void plain_attention_backward(const Stream& stream, const AttentionBackwardArgs& args, const float* delta) {
  const BackwardPass g(args, delta);
  launch(stream, backward_keys,
         grid_of(static_cast<unsigned>(g.groups), g.sequences.slots(args.k.dim(0), kKeys), 6, g.dim), g);
  launch(stream, backward_queries,
         grid_of(static_cast<unsigned>(g.heads), g.sequences.slots(args.q.dim(0), kQueries), 5, g.dim), g);
}

}  // namespace mt::ops::cuda
