// Tasks are (sequence, key/value head, kTaskQueries queries). A task packs each block of keys once for all query heads
// of the group and keeps, per query row, the running maximum, sum and unnormalised output.
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/kernels.h"

namespace mt::ops::cpu {

namespace {

constexpr Count kTaskQueries = 256;
constexpr float kLow = -std::numeric_limits<float>::infinity();

struct Task {
  Sequence s;
  Count index;                  // of the sequence
  Count group, first, queries;  // key/value head, first query in the sequence, how many
};

// Scratch of one task. Rows are (head of the group, query of the task).
struct State {
  Count dp, rows;
  Scratch memory;
  float *q, *out, *max, *sum, *keys, *keys_t, *values, *scores;

  State(Count heads, Count queries, Count width)
      : dp(width), rows(heads * queries), memory(2 * rows * dp + 2 * padded(rows) + kKeys * dp * 3 + kQueries * kKeys) {
    q = memory.at(0);
    out = q + rows * dp;
    max = out + rows * dp;
    sum = max + padded(rows);
    keys = sum + padded(rows);
    keys_t = keys + kKeys * dp;
    values = keys_t + kKeys * dp;
    scores = values + kKeys * dp;
    std::fill(out, out + rows * dp, 0.0f);
    std::fill(max, max + rows, kLow);
    std::fill(sum, sum + rows, 0.0f);
  }
};

struct Block {
  Count head, row, query, queries, key, keys;  // row in State; query and key counted in the sequence
};

// Fold one block of scores into the running softmax of its rows; scores become probabilities up to e^max.
void soften(const AttentionForwardArgs& g, const Task& task, State& st, const Block& b) {
  const Count width = padded(b.keys);
  for (Count i = 0; i < b.queries; ++i) {
    float* p = st.scores + i * kKeys;
    const Count seen = std::clamp<Count>(task.s.visible(b.query + i, g.shape.causal) - b.key, 0, b.keys);
    // Whole lanes: what is masked becomes −infinity, whose exponential is an exact zero.
    const Count lanes = padded(seen);
    std::fill(p + seen, p + lanes, kLow);
    float &max = st.max[b.row + i], &sum = st.sum[b.row + i];
    const float here = vector().max(p, lanes), old = max;
    max = here <= old ? old : here;
    if (max == kLow) {
      std::fill(p, p + width, 0.0f);
      continue;
    }
    const float total = vector().exp_row(p, max, lanes);
    std::fill(p + lanes, p + width, 0.0f);
    if (max != old) {
      const float shrink = exp_f32(old - max);
      sum *= shrink;
      vector().scale(st.out + (b.row + i) * st.dp, shrink, st.out + (b.row + i) * st.dp, st.dp);
    }
    sum += total;
    if (g.shape.dropout.p > 0) drop_row(g.shape.dropout, b.head, task.s.q + b.query + i, task.s.k + b.key, p, seen);
  }
}

void one_block(const AttentionForwardArgs& g, const Task& task, State& st, const Block& b) {
  const Count width = padded(b.keys);
  vector().block_product(
      {b.queries, width, st.dp, st.q + b.row * st.dp, st.dp, 1, st.keys_t, kKeys, st.scores, kKeys, false});
  soften(g, task, st, b);
  vector().block_product(
      {b.queries, st.dp, b.keys, st.scores, kKeys, 1, st.values, st.dp, st.out + b.row * st.dp, st.dp, true});
}

void finish(const AttentionForwardArgs& g, const Task& task, State& st, Count head, Count row) {
  for (Count i = 0; i < task.queries; ++i) {
    const float sum = st.sum[row + i];
    float* out = st.out + (row + i) * st.dp;
    if (sum != 0) vector().scale(out, 1.0f / sum, out, st.dp);
    static_cast<float*>(element(g.lse, (task.s.q + task.first + i) * g.q.dim(1) + head))[0] =
        sum == 0 ? kLow : st.max[row + i] + log_f32(sum);
  }
  unpack(st.out + row * st.dp, st.dp, task.queries, g.out, head, task.s.q + task.first);
}

void run(const AttentionForwardArgs& g, const Task& task) {
  const Count heads = g.q.dim(1) / g.k.dim(1), first_head = task.group * heads;
  State st(heads, task.queries, padded(g.q.dim(2)));
  for (Count h = 0; h < heads; ++h)
    pack(g.q, first_head + h, task.s.q + task.first, task.queries, g.shape.scale, st.q + h * task.queries * st.dp,
         st.dp);
  const Count seen = task.s.visible(task.first + task.queries - 1, g.shape.causal);
  for (Count key = 0; key < seen; key += kKeys) {
    const Count keys = std::min(kKeys, seen - key);
    pack(g.k, task.group, task.s.k + key, keys, 1, st.keys, st.dp);
    transpose_keys(st.keys, st.dp, keys, st.dp, st.keys_t, kKeys);
    pack(g.v, task.group, task.s.k + key, keys, 1, st.values, st.dp);
    for (Count h = 0; h < heads; ++h)
      for (Count i = 0; i < task.queries; i += kQueries) {
        const Count queries = std::min(kQueries, task.queries - i), query = task.first + i;
        const Count last = task.s.visible(query + queries - 1, g.shape.causal) - key;
        if (last <= 0) continue;
        one_block(g, task, st, {first_head + h, h * task.queries + i, query, queries, key, std::min(keys, last)});
      }
  }
  for (Count h = 0; h < heads; ++h) finish(g, task, st, first_head + h, h * task.queries);
}

}  // namespace

void attention_forward(const Stream& stream, const AttentionForwardArgs& g) {
  std::vector<Task> tasks;
  const Count sequences = g.shape.cu_q.size() - 1, groups = g.k.dim(1);
  // Long tasks (late queries of a causal sequence) first, so that no thread ends alone with one.
  for (Count i = 0; i < sequences; ++i) {
    const Sequence s = sequence(g.shape, i);
    for (Count first = (s.nq - 1) / kTaskQueries * kTaskQueries; first >= 0 && s.nq > 0; first -= kTaskQueries)
      for (Count h = 0; h < groups; ++h) tasks.push_back({s, i, h, first, std::min(kTaskQueries, s.nq - first)});
  }
  parallel_blocks(stream, static_cast<Count>(tasks.size()),
                  [&](Count i) { run(g, tasks[static_cast<std::size_t>(i)]); });
}

void attention_merge(const Stream& stream, const AttentionMergeArgs& g) {
  const Count tokens = g.out.dim(0), heads = g.out.dim(1), d = g.out.dim(2);
  parallel_ranges(stream, tokens, rows_per_block(heads * d), [&](Count lo, Count hi) {
    const Scratch s(3 * d);
    for (Count t = lo; t < hi; ++t)
      for (Count h = 0; h < heads; ++h) {
        float& a = g.lse.as<float>()[t * heads + h];
        const float b = g.part_lse.as<float>()[t * heads + h], max = b <= a ? a : b;
        if (b == kLow) continue;
        const float ea = a == kLow ? 0.0f : exp_f32(a - max), eb = exp_f32(b - max), sum = ea + eb;
        a = max + log_f32(sum);
        void* place = element(g.out, t * g.out.strides[0] + h * g.out.strides[1]);
        void* part = element(g.part_out, t * g.part_out.strides[0] + h * g.part_out.strides[1]);
        vector().scale(read(g.out.dtype, place, d, s.at(0)), ea / sum, s.at(0), d);
        vector().scale(read(g.part_out.dtype, part, d, s.at(d)), eb / sum, s.at(d), d);
        vector().add(s.at(0), s.at(d), s.at(0), d);
        from_f32(g.out.dtype, s.at(0), place, d);
      }
  });
}

}  // namespace mt::ops::cpu
