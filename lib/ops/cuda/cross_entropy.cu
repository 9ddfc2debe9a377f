// A block a row: vocabulary rows are long.
#include <limits>

#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.h"
#include "ops/scalar.h"

namespace mt::ops::cuda {

namespace {

constexpr unsigned kRowThreads = 256;

struct Target {
  const std::int32_t* ids;
  Count first_id, columns;
  // Column of the row's target here, or −1.
  __device__ Count column(Count row) const {
    const Count c = ids[row] - first_id;
    return c >= 0 && c < columns ? c : -1;
  }
};

// f(column, count) for the groups of a row that are this thread's.
template <class F>
__device__ inline void each_of_row(Count columns, const F& f) {
  for (Count at = static_cast<Count>(threadIdx.x) * kGroup; at < columns; at += static_cast<Count>(blockDim.x) * kGroup)
    f(at, columns - at < kGroup ? static_cast<int>(columns - at) : kGroup);
}

__global__ void row_maxima(Elements logits, Count columns, float* row_max) {
  const Count row = blockIdx.x;
  const LargestOrNan larger;
  float most = -std::numeric_limits<float>::infinity();
  each_of_row(columns, [&](Count at, int count) {
    float x[kGroup];
    load(logits, row, at, count, x);
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      if (i < count) most = larger(most, x[i]);
  });
  most = over_block(most, shared_mem<float>(), larger);
  if (threadIdx.x == 0) row_max[row] = most;
}

__global__ void row_sums(Elements logits, Count columns, const float* row_max, Target target, float* sum_exp,
                         float* target_logit, float* sum_logits) {
  const Count row = blockIdx.x;
  const float max = row_max[row];
  float exps = 0, plain = 0;
  each_of_row(columns, [&](Count at, int count) {
    float x[kGroup];
    load(logits, row, at, count, x);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float d = x[i] - max;
      exps += i < count ? exp_f32(d) : 0.0f;
      plain += i < count ? d : 0.0f;
    }
  });
  auto* slots = shared_mem<float>();
  exps = over_block(exps, slots, Sum{});
  if (sum_logits != nullptr) plain = over_block(plain, slots + 32, Sum{});
  if (threadIdx.x != 0) return;
  const Count column = target.column(row);
  sum_exp[row] = exps;
  target_logit[row] = column >= 0 ? load_one(logits, row, column) - max : 0.0f;
  if (sum_logits != nullptr) sum_logits[row] = plain;
}

struct Loss {
  Elements logits;
  Target target;
  const float *row_max, *sum_exp, *target_logit, *sum_logits, *token_scale;
  float* loss;
  float label_smoothing, vocab;

  __device__ float smooth() const { return label_smoothing * vocab / (vocab - 1); }

  __device__ void write_loss(Count row) const {
    const float log_sum = log_f32(sum_exp[row]);
    float l = log_sum - target_logit[row];
    if (label_smoothing > 0) l = (1 - smooth()) * l - smooth() * (sum_logits[row] / vocab - log_sum);
    loss[row] = l;
  }
};

__global__ void losses(Loss g, Count rows) {
  const Count row = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) g.write_loss(row);
}

// Element by element; padding columns and tokens of scale 0 become exact zeros.
struct Gradient {
  Loss g;
  __device__ void operator()(Count row, Count at, int count) const {
    const float scale = g.token_scale[row];
    float x[kGroup];
    if (scale == 0 || at >= g.target.columns) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[i] = 0;
    } else {
      const bool smoothed = g.label_smoothing > 0;
      const float smooth = smoothed ? g.smooth() : 0.0f, each = smoothed ? smooth / g.vocab * scale : 0.0f;
      const float max = g.row_max[row], factor = scale / g.sum_exp[row];
      const Count hit = g.target.column(row);
      load(g.logits, row, at, count, x);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const float d = exp_f32(x[i] - max) * factor - each;
        x[i] = at + i >= g.target.columns ? 0.0f : at + i == hit ? d - (1 - smooth) * scale : d;
      }
    }
    store(g.logits, row, at, count, x);
  }
};

const float* floats(const View& v) { return static_cast<const float*>(v.data); }
float* written(const View& v) { return static_cast<float*>(v.data); }

Grid grid_of(Count rows) {
  return {.x = static_cast<unsigned>(rows), .threads = kRowThreads, .shared_bytes = 64 * sizeof(float)};
}

}  // namespace

void cross_entropy_max(const Stream& stream, const CrossEntropyMaxArgs& g) {
  launch(stream, row_maxima, grid_of(g.logits.dim(0)), elements(g.logits), g.columns, written(g.row_max));
}

void cross_entropy_sum(const Stream& stream, const CrossEntropySumArgs& g) {
  const Target target{static_cast<const std::int32_t*>(g.targets.data), g.first_id, g.columns};
  launch(stream, row_sums, grid_of(g.logits.dim(0)), elements(g.logits), g.columns, floats(g.row_max), target,
         written(g.sum_exp), written(g.target_logit), written(g.sum_logits));
}

void cross_entropy_loss(const Stream& stream, const CrossEntropyLossArgs& g) {
  const Count rows = g.logits.dim(0);
  const Loss loss{elements(g.logits),     {static_cast<const std::int32_t*>(g.targets.data), g.first_id, g.columns},
                  floats(g.row_max),      floats(g.sum_exp),
                  floats(g.target_logit), floats(g.sum_logits),
                  floats(g.token_scale),  written(g.loss),
                  g.label_smoothing,      static_cast<float>(g.vocab)};
  launch(stream, losses, {.x = static_cast<unsigned>(ceil_div(rows, kRowThreads)), .threads = kRowThreads}, loss, rows);
  if (g.gradient) each_group(stream, rows, g.logits.dim(1), Gradient{loss});
}

}  // namespace mt::ops::cuda
