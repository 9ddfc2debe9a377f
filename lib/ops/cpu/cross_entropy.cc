#include <limits>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/scalar.h"

namespace mt::ops::cpu {

namespace {

constexpr Count kRows = 4;  // a block of work: vocabulary rows are long

float* f32_of(const View& v) { return static_cast<float*>(v.data); }

// f(begin, end, columns as f32) over one row in blocks of kLossColumns.
template <class F>
void each_columns(const View& logits, Count t, Count columns, float* scratch, const F& f) {
  for (Count lo = 0; lo < columns; lo += kLossColumns) {
    const Count n = columns - lo < kLossColumns ? columns - lo : kLossColumns;
    f(lo, n, read(logits.dtype, element(logits, t * logits.strides[0] + lo), n, scratch));
  }
}

float logit_at(const View& logits, Count t, Count column) {
  float one;
  to_f32(logits.dtype, element(logits, t * logits.strides[0] + column), &one, 1);
  return one;
}

// Column of the row's target here, or −1.
Count target_column(const View& targets, Count t, Count first_id, Count columns) {
  const Count c = static_cast<const std::int32_t*>(targets.data)[t] - first_id;
  return c >= 0 && c < columns ? c : -1;
}

void write_gradient(const CrossEntropyLossArgs& g, Count t, const Scratch& s) {
  const float scale = f32_of(g.token_scale)[t];
  const Count held = g.logits.dim(1);
  void* whole = element(g.logits, t * g.logits.strides[0]);
  const auto bytes = static_cast<std::size_t>(bytes_of(g.logits.dtype, 1));
  if (scale == 0) {
    std::memset(whole, 0, static_cast<std::size_t>(held) * bytes);
    return;
  }
  // Megatron's smoothing: the target keeps 1 − s, every true id has s/(V − 1)·(V − 1)/V = s/V in all.
  const auto vocab = static_cast<float>(g.vocab);
  const float smooth = g.label_smoothing > 0 ? g.label_smoothing * vocab / (vocab - 1) : 0;
  const float each = g.label_smoothing > 0 ? smooth / vocab * scale : 0;
  const float max = f32_of(g.row_max)[t], factor = scale / f32_of(g.sum_exp)[t];
  const Count target = target_column(g.targets, t, g.first_id, g.columns);
  float at_target = 0;
  if (target >= 0) at_target = (exp_f32(logit_at(g.logits, t, target) - max) * factor - each) - (1 - smooth) * scale;
  each_columns(g.logits, t, g.columns, s.at(0), [&](Count lo, Count n, const float* x) {
    void* out = element(g.logits, t * g.logits.strides[0] + lo);
    write(g.logits.dtype, out, n, s.at(kLossColumns),
          [&](float* d) { vector().softmax_gradient(x, max, factor, each, d, n); });
  });
  if (target >= 0)
    from_f32(g.logits.dtype, &at_target, static_cast<std::byte*>(whole) + static_cast<std::size_t>(target) * bytes, 1);
  std::memset(static_cast<std::byte*>(whole) + static_cast<std::size_t>(g.columns) * bytes, 0,
              static_cast<std::size_t>(held - g.columns) * bytes);
}

}  // namespace

void cross_entropy_max(const Stream& stream, const CrossEntropyMaxArgs& g) {
  parallel_ranges(stream, g.logits.dim(0), kRows, [&](Count lo, Count hi) {
    const Scratch s(kLossColumns);
    for (Count t = lo; t < hi; ++t) {
      float max = -std::numeric_limits<float>::infinity();
      each_columns(g.logits, t, g.columns, s.at(0), [&](Count, Count n, const float* x) {
        const float m = vector().max(x, n);
        max = m <= max || max != max ? max : m;
      });
      f32_of(g.row_max)[t] = max;
    }
  });
}

void cross_entropy_sum(const Stream& stream, const CrossEntropySumArgs& g) {
  parallel_ranges(stream, g.logits.dim(0), kRows, [&](Count lo, Count hi) {
    const Scratch s(kLossColumns);
    for (Count t = lo; t < hi; ++t) {
      const float max = f32_of(g.row_max)[t];
      float exps = 0, logits = 0;
      each_columns(g.logits, t, g.columns, s.at(0), [&](Count, Count n, const float* x) {
        float sums[2];
        vector().exp_sums(x, max, n, sums);
        exps += sums[0];
        logits += sums[1];
      });
      const Count target = target_column(g.targets, t, g.first_id, g.columns);
      f32_of(g.sum_exp)[t] = exps;
      f32_of(g.target_logit)[t] = target >= 0 ? logit_at(g.logits, t, target) - max : 0.0f;
      if (g.sum_logits) f32_of(g.sum_logits)[t] = logits;
    }
  });
}

void cross_entropy_loss(const Stream& stream, const CrossEntropyLossArgs& g) {
  parallel_ranges(stream, g.logits.dim(0), kRows, [&](Count lo, Count hi) {
    const Scratch s(2 * kLossColumns);
    for (Count t = lo; t < hi; ++t) {
      const float log_sum = log_f32(f32_of(g.sum_exp)[t]);
      float loss = log_sum - f32_of(g.target_logit)[t];
      if (g.label_smoothing > 0) {
        const auto vocab = static_cast<float>(g.vocab);
        const float smooth = g.label_smoothing * vocab / (vocab - 1);
        loss = (1 - smooth) * loss - smooth * (f32_of(g.sum_logits)[t] / vocab - log_sum);
      }
      f32_of(g.loss)[t] = loss;
      if (g.gradient) write_gradient(g, t, s);
    }
  });
}

}  // namespace mt::ops::cpu
