#include "ops/cross_entropy.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

namespace {

std::int64_t check_logits(const View& logits, std::int64_t columns) {
  MT_CHECK(logits.num_dims() == 2, "logits {}", shape_text(logits.shape));
  MT_CHECK_FLOAT(logits, {logits.dim(0), logits.dim(1)});
  MT_CHECK(columns >= 0 && columns <= logits.dim(1), "{} true columns of {}", columns, logits.dim(1));
  return logits.dim(0);
}

}  // namespace

void cross_entropy_max(Stream& stream, const CrossEntropyMaxArgs& g) {
  const std::int64_t rows = check_logits(g.logits, g.columns);
  MT_CHECK_VIEW(g.row_max, DType::f32, {rows});
  dispatch(stream, &Kernels::cross_entropy_max, g);
}

void cross_entropy_sum(Stream& stream, const CrossEntropySumArgs& g) {
  const std::int64_t rows = check_logits(g.logits, g.columns);
  for (const View* v : {&g.row_max, &g.sum_exp, &g.target_logit}) MT_CHECK_VIEW(*v, DType::f32, {rows});
  if (g.sum_logits) MT_CHECK_VIEW(g.sum_logits, DType::f32, {rows});
  MT_CHECK_VIEW(g.targets, DType::i32, {rows});
  dispatch(stream, &Kernels::cross_entropy_sum, g);
}

void cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& g) {
  const std::int64_t rows = check_logits(g.logits, g.columns);
  for (const View* v : {&g.row_max, &g.sum_exp, &g.target_logit, &g.loss}) MT_CHECK_VIEW(*v, DType::f32, {rows});
  if (g.gradient) MT_CHECK_VIEW(g.token_scale, DType::f32, {rows});
  MT_CHECK_VIEW(g.targets, DType::i32, {rows});
  MT_CHECK(g.label_smoothing >= 0 && g.label_smoothing < 1, "label smoothing {}", g.label_smoothing);
  if (g.label_smoothing > 0) {
    MT_CHECK(g.vocab >= 2, "vocabulary {}", g.vocab);
    MT_CHECK_VIEW(g.sum_logits, DType::f32, {rows});
  }
  dispatch(stream, &Kernels::cross_entropy_loss, g);
}

Cost cross_entropy_cost(std::int64_t tokens, std::int64_t columns, int bytes_per_element) {
  const double n = static_cast<double>(tokens) * static_cast<double>(columns);
  return {40 * n, 4 * n * bytes_per_element};
}

}  // namespace mt::ops
