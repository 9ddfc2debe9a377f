#include "ops/adamw.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

float adamw_bias_correction(float beta, std::int64_t step) {
  MT_CHECK(step >= 1, "step {}", step);
  double power = 1, square = beta;
  for (std::int64_t s = step; s != 0; s >>= 1) {
    if (s & 1) power *= square;
    square *= square;
  }
  return static_cast<float>(1 - power);
}

namespace {

void check(const AdamwArgs& g) {
  const std::int64_t n = g.master.size();
  MT_CHECK(g.master.dtype == DType::f32 && g.master.contiguous(), "master {} of {}", dtype_name(g.master.dtype),
           shape_text(g.master.shape));
  for (const View* v : {&g.exp_avg, &g.exp_avg_sq})
    MT_CHECK((is_float(*v) || v->dtype == DType::e4m3) && v->contiguous() && v->size() == n, "{} of {} for {} elements",
             dtype_name(v->dtype), shape_text(v->shape), n);
  MT_CHECK(is_float(g.grad) && g.grad.contiguous() && g.grad.size() == n, "grad {} for {}", shape_text(g.grad.shape),
           n);
  if (g.model)
    MT_CHECK(is_float(g.model) && g.model.contiguous() && g.model.size() == n, "model {} for {}",
             shape_text(g.model.shape), n);
  MT_CHECK(g.scalars != nullptr, "no scalars");
}

}  // namespace

void adamw(Stream& stream, const AdamwArgs& g) {
  check(g);
  dispatch(stream, &Kernels::adamw, g);
}

void adamw_largest(Stream& stream, const AdamwLargestArgs& g) {
  check(g.step);
  dispatch(stream, &Kernels::adamw_largest, g);
}

void moment_scales(Stream& stream, const MomentScalesArgs& g) {
  MT_CHECK_VIEW(g.largest, DType::f32, {g.next.size()});
  MT_CHECK_VIEW(g.next, DType::f32, {g.next.size()});
  dispatch(stream, &Kernels::moment_scales, g);
}

Cost adamw_cost(std::int64_t count, int model_bytes) {
  const double n = static_cast<double>(count);
  return {16 * n, n * (28 + model_bytes)};
}

}  // namespace mt::ops
