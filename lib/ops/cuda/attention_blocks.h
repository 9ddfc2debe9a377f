#pragma once
// What the attention kernels share: sequences found on the device, the dropout mask, arguments as kernels see them.
//
// The host does not know the lengths of the sequences, and asking would wait. So a grid has a slot for every block of
// rows that there could be: sequence i starts at slot cu[i]/rows + i, which leaves room for its last, partial block.

#include <limits>

#include "ops/attention.h"
#include "ops/cuda/elements.h"
#include "ops/scalar.h"

namespace mt::ops::cuda {

inline constexpr float kLow = -std::numeric_limits<float>::infinity();

// Tokens of one sequence: first query, queries, first key, keys in use, keys with the spare ones.
struct Sequence {
  int q = 0, nq = 0, k = 0, nk = 0, nk_all = 0;
  bool causal = false;
  // Keys [0, visible(i)) are seen by query i.
  __device__ int visible(int i) const {
    if (!causal) return nk;
    const int seen = i + 1 + nk - nq;
    return seen < 0 ? 0 : seen > nk ? nk : seen;
  }
  // The first query that sees key j, where there is one.
  __device__ int first_seeing(int j) const {
    const int i = causal ? j - (nk - nq) : 0;
    return i < 0 ? 0 : i;
  }
};

struct Block {
  bool there = false;
  int first = 0;  // row of the sequence
  Sequence s;
};

struct Sequences {
  const std::int32_t *cu_q, *cu_k, *used_k;
  int count, causal;

  explicit Sequences(const AttentionShape& s)
      : cu_q(static_cast<const std::int32_t*>(s.cu_q.data)),
        cu_k(static_cast<const std::int32_t*>(s.cu_k.data)),
        used_k(static_cast<const std::int32_t*>(s.used_k.data)),
        count(static_cast<int>(s.cu_q.size() - 1)),
        causal(s.causal) {}

  // Slots for `tokens` rows in blocks of `rows`.
  unsigned slots(Count tokens, int rows) const { return static_cast<unsigned>(tokens / rows + count); }

  // The block of `rows` queries, or of keys, at a slot.
  __device__ Block find(bool of_keys, int rows, int slot) const {
    const std::int32_t* cu = of_keys ? cu_k : cu_q;
    int low = 0, high = count - 1;  // the last sequence that starts at or before the slot
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (cu[middle] / rows + middle <= slot) low = middle;
      else high = middle - 1;
    }
    Block b;
    if (count == 0) return b;
    b.first = (slot - (cu[low] / rows + low)) * rows;
    b.there = b.first >= 0 && b.first < cu[low + 1] - cu[low];
    b.s = {cu_q[low],  cu_q[low + 1] - cu_q[low], cu_k[low], cu_k[low + 1] - cu_k[low], cu_k[low + 1] - cu_k[low],
           causal != 0};
    if (used_k != nullptr) b.s.nk = used_k[low];
    return b;
  }
};

// Attention dropout as ops/dropout.h says.
struct ScoreMask {
  PhiloxKey key{};
  const std::int64_t* ordinals = nullptr;
  const std::int32_t *query_positions = nullptr, *key_positions = nullptr;
  Count first_head = 0;
  std::uint32_t threshold = 0;
  float keep_scale = 1;

  explicit ScoreMask(const AttentionDropout& d) {
    if (d.p == 0) return;
    key = d.key;
    ordinals = static_cast<const std::int64_t*>(d.ordinals.data);
    query_positions = static_cast<const std::int32_t*>(d.query_positions.data);
    key_positions = static_cast<const std::int32_t*>(d.key_positions.data);
    first_head = d.first_head;
    threshold = dropout_threshold(d.p);
    keep_scale = 1.0f / (1.0f - d.p);
  }

  // 0 or keep_scale for the score of a query token (of a head) and a key token.
  __device__ float factor(int head, int query, int key_token) const {
    const auto ordinal = static_cast<std::uint64_t>(ordinals[query]);
    const auto position = static_cast<std::uint32_t>(key_positions[key_token]);
    const auto global_head = static_cast<std::uint32_t>(first_head + head);
    const auto words = philox(key, position / 4, static_cast<std::uint32_t>(query_positions[query]),
                              static_cast<std::uint32_t>(ordinal),
                              global_head << 16 | static_cast<std::uint32_t>((ordinal >> 32) & 0xffffu));
    const unsigned w = position & 3u;
    const std::uint32_t word = w == 0 ? words[0] : w == 1 ? words[1] : w == 2 ? words[2] : words[3];
    return dropout_keeps(word, threshold) ? keep_scale : 0.0f;
  }
};

// [tokens, heads, dim] with free strides.
struct Heads {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::uint8_t unused[7] = {};
  Count token = 0, head = 0;

  explicit Heads(const View& v) : data(v.data), dtype(v.dtype), token(v.stride(0)), head(v.stride(1)) {}

  template <class T>
  __device__ T* at(Count t, Count h) const {
    return static_cast<T*>(data) + t * token + h * head;
  }
  __device__ float get(Count t, Count h, Count i) const {
    const Count place = t * token + h * head + i;
    if (dtype == DType::f32) return static_cast<const float*>(data)[place];
    if (dtype == DType::bf16) return to_f32(static_cast<const bf16*>(data)[place]);
    return to_f32(static_cast<const f16*>(data)[place]);
  }
  __device__ void put(Count t, Count h, Count i, float x) const {
    const Count place = t * token + h * head + i;
    if (dtype == DType::f32) static_cast<float*>(data)[place] = x;
    else if (dtype == DType::bf16) static_cast<bf16*>(data)[place] = to_bf16(x);
    else static_cast<f16*>(data)[place] = to_f16(x);
  }
};

struct ForwardPass {
  Heads q, k, v, out;
  float* lse;
  Sequences sequences;
  ScoreMask mask;
  int heads, groups, dim;
  float scale;
  int drops;

  explicit ForwardPass(const AttentionForwardArgs& g)
      : q(g.q),
        k(g.k),
        v(g.v),
        out(g.out),
        lse(static_cast<float*>(g.lse.data)),
        sequences(g.shape),
        mask(g.shape.dropout),
        heads(static_cast<int>(g.q.dim(1))),
        groups(static_cast<int>(g.k.dim(1))),
        dim(static_cast<int>(g.q.dim(2))),
        scale(g.shape.scale),
        drops(g.shape.dropout.p > 0) {}
};

struct BackwardPass {
  Heads q, k, v, dout, dq, dk, dv;
  const float *lse, *delta;  // [Tq, H]; delta = Σ dout·out
  Sequences sequences;
  ScoreMask mask;
  int heads, groups, dim;
  float scale;
  int drops;

  explicit BackwardPass(const AttentionBackwardArgs& g, const float* made_delta)
      : q(g.q),
        k(g.k),
        v(g.v),
        dout(g.dout),
        dq(g.dq),
        dk(g.dk),
        dv(g.dv),
        lse(static_cast<const float*>(g.lse.data)),
        delta(made_delta),
        sequences(g.shape),
        mask(g.shape.dropout),
        heads(static_cast<int>(g.q.dim(1))),
        groups(static_cast<int>(g.k.dim(1))),
        dim(static_cast<int>(g.q.dim(2))),
        scale(g.shape.scale),
        drops(g.shape.dropout.p > 0) {}
};

// The kernels for any head size and dtype: right, not fast. ops/cuda/attention_plain.cu
void plain_attention_forward(const Stream& stream, const AttentionForwardArgs& args);
void plain_attention_backward(const Stream& stream, const AttentionBackwardArgs& args, const float* delta);

}  // namespace mt::ops::cuda
