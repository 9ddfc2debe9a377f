// Tasks are (sequence, key/value head): a task owns dk and dv of its head and dq of the group's query heads, so nothing
// is shared. Scores are computed again from q, k and the saved log-sum-exp.
#include <limits>
#include <vector>

#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/kernels.h"

namespace mt::ops::cpu {

namespace {

struct Task {
  Sequence s;
  Count group;
};

// Scratch of one task; rows are (head of the group, query).
struct State {
  Count dp, rows;
  Scratch memory;
  float *q, *dout, *dq, *lse, *delta, *keys, *keys_t, *values_t, *dk, *dv, *p, *ds;

  State(Count heads, Count queries, Count width)
      : dp(width),
        rows(heads * queries),
        memory(3 * rows * dp + 2 * padded(rows) + 5 * kKeys * dp + 2 * kQueries * kKeys) {
    q = memory.at(0);
    dout = q + rows * dp;
    dq = dout + rows * dp;
    lse = dq + rows * dp;
    delta = lse + padded(rows);
    keys = delta + padded(rows);
    keys_t = keys + kKeys * dp;
    values_t = keys_t + kKeys * dp;
    dk = values_t + kKeys * dp;
    dv = dk + kKeys * dp;
    p = dv + kKeys * dp;
    ds = p + kQueries * kKeys;
    std::fill(dq, dq + rows * dp, 0.0f);
  }
};

struct Block {
  Count head, row, query, queries, key, keys;
};

void one_block(const AttentionBackwardArgs& g, const Task& task, State& st, const Block& b) {
  const Count width = padded(b.keys), dp = st.dp;
  const float *q = st.q + b.row * dp, *dout = st.dout + b.row * dp;
  vector().block_product({b.queries, width, dp, q, dp, 1, st.keys_t, kKeys, st.p, kKeys, false});
  vector().block_product({b.queries, width, dp, dout, dp, 1, st.values_t, kKeys, st.ds, kKeys, false});
  const bool drops = g.shape.dropout.p > 0;
  for (Count i = 0; i < b.queries; ++i) {
    float *p = st.p + i * kKeys, *ds = st.ds + i * kKeys;
    Count seen = std::clamp<Count>(task.s.visible(b.query + i, g.shape.causal) - b.key, 0, b.keys);
    const float lse = st.lse[b.row + i];
    if (lse == -std::numeric_limits<float>::infinity()) seen = 0;
    const Count lanes = padded(seen);
    std::fill(p + seen, p + lanes, -std::numeric_limits<float>::infinity());
    vector().exp_row(p, lse, lanes);
    if (drops) {
      // out = Σ mask·p·v: the mask multiplies dP on the way back, and the P that dv sees.
      const Count query = task.s.q + b.query + i, key = task.s.k + b.key;
      drop_row(g.shape.dropout, b.head, query, key, ds, seen);
      vector().softmax_backward(p, ds, st.delta[b.row + i], 1.0f, ds, seen);
      drop_row(g.shape.dropout, b.head, query, key, p, seen);
    } else {
      vector().softmax_backward(p, ds, st.delta[b.row + i], 1.0f, ds, lanes);
    }
    std::fill(p + lanes, p + width, 0.0f);
    std::fill(ds + seen, ds + width, 0.0f);
  }
  vector().block_product({b.keys, dp, b.queries, st.p, 1, kKeys, dout, dp, st.dv, dp, true});
  vector().block_product({b.keys, dp, b.queries, st.ds, 1, kKeys, q, dp, st.dk, dp, true});
  vector().block_product({b.queries, dp, b.keys, st.ds, kKeys, 1, st.keys, dp, st.dq + b.row * dp, dp, true});
}

// q scaled, dout, lse and delta = Σ dout·out of every row.
void load_rows(const AttentionBackwardArgs& g, const Task& task, State& st, Count heads) {
  const Scratch s(st.dp);
  for (Count h = 0; h < heads; ++h) {
    const Count head = task.group * heads + h, row = h * task.s.nq;
    pack(g.q, head, task.s.q, task.s.nq, g.shape.scale, st.q + row * st.dp, st.dp);
    pack(g.dout, head, task.s.q, task.s.nq, 1, st.dout + row * st.dp, st.dp);
    for (Count i = 0; i < task.s.nq; ++i) {
      const Count t = task.s.q + i;
      const float* out =
          read(g.out.dtype, element(g.out, t * g.out.strides[0] + head * g.out.strides[1]), g.out.dim(2), s.at(0));
      st.lse[row + i] = static_cast<const float*>(g.lse.data)[t * g.q.dim(1) + head];
      st.delta[row + i] = vector().dot(st.dout + (row + i) * st.dp, out, g.out.dim(2));
    }
  }
}

void run(const AttentionBackwardArgs& g, const Task& task) {
  const Count heads = g.q.dim(1) / g.k.dim(1), nq = task.s.nq, nk = task.s.nk;
  State st(heads, nq, padded(g.q.dim(2)));
  load_rows(g, task, st, heads);
  for (Count key = 0; key < nk; key += kKeys) {
    const Count keys = std::min(kKeys, nk - key);
    pack(g.k, task.group, task.s.k + key, keys, 1, st.keys, st.dp);
    transpose_keys(st.keys, st.dp, keys, st.dp, st.keys_t, kKeys);
    pack(g.v, task.group, task.s.k + key, keys, 1, st.dk, st.dp);
    transpose_keys(st.dk, st.dp, keys, st.dp, st.values_t, kKeys);
    std::fill(st.dk, st.dk + 2 * kKeys * st.dp, 0.0f);
    for (Count h = 0; h < heads; ++h)
      for (Count i = 0; i < nq; i += kQueries) {
        const Count queries = std::min(kQueries, nq - i);
        const Count last = task.s.visible(i + queries - 1, g.shape.causal) - key;
        if (last <= 0) continue;
        one_block(g, task, st, {task.group * heads + h, h * nq + i, i, queries, key, std::min(keys, last)});
      }
    unpack(st.dk, st.dp, keys, g.dk, task.group, task.s.k + key);
    unpack(st.dv, st.dp, keys, g.dv, task.group, task.s.k + key);
  }
  // q was scaled on the way in, so dk is done; dq still wants the factor.
  if (g.shape.scale != 1) vector().scale(st.dq, g.shape.scale, st.dq, st.rows * st.dp);
  for (Count h = 0; h < heads; ++h) unpack(st.dq + h * nq * st.dp, st.dp, nq, g.dq, task.group * heads + h, task.s.q);
}

// Keys beyond those in use get no gradient: zeros.
void clear_unused(const AttentionBackwardArgs& g, Count index, Count group) {
  const Sequence s = sequence(g.shape, index);
  const auto* cu = static_cast<const std::int32_t*>(g.shape.cu_k.data) + index;
  const Scratch zeros(padded(g.k.dim(2)));
  std::fill(zeros.at(0), zeros.at(padded(g.k.dim(2))), 0.0f);
  for (Count t = s.k + s.nk; t < cu[1]; ++t) {
    unpack(zeros.at(0), 0, 1, g.dk, group, t);
    unpack(zeros.at(0), 0, 1, g.dv, group, t);
  }
}

}  // namespace

void attention_backward(const Stream& stream, const AttentionBackwardArgs& g) {
  const Count sequences = g.shape.cu_q.size() - 1, groups = g.k.dim(1);
  parallel_blocks(stream, sequences * groups, [&](Count i) {
    run(g, {sequence(g.shape, i / groups), i % groups});
    clear_unused(g, i / groups, i % groups);
  });
}

}  // namespace mt::ops::cpu
