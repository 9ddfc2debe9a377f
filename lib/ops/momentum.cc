#include "ops/momentum.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

namespace {

void check_f32(const View& v, std::int64_t n) {
  MT_CHECK(v.dtype == DType::f32 && v.contiguous() && v.size() == n, "{} of {} for {} elements", dtype_name(v.dtype),
           shape_text(v.shape), n);
}

void check_float(const View& v, std::int64_t n) {
  MT_CHECK(is_float(v) && v.contiguous() && v.size() == n, "{} of {} for {} elements", dtype_name(v.dtype),
           shape_text(v.shape), n);
}

}  // namespace

void sgd(Stream& stream, const SgdArgs& g) {
  const std::int64_t n = g.master.size();
  check_f32(g.master, n);
  if (g.momentum) check_f32(g.momentum, n);
  check_float(g.grad, n);
  if (g.model) check_float(g.model, n);
  MT_CHECK(g.scalars != nullptr, "no scalars");
  dispatch(stream, &Kernels::sgd, g);
}

Cost sgd_cost(std::int64_t count, bool momentum, int model_bytes) {
  const double n = static_cast<double>(count);
  return {(momentum ? 7 : 5) * n, n * ((momentum ? 20 : 12) + model_bytes)};
}

void lion(Stream& stream, const LionArgs& g) {
  const std::int64_t n = g.master.size();
  check_f32(g.master, n);
  check_f32(g.exp_avg, n);
  check_float(g.grad, n);
  if (g.model) check_float(g.model, n);
  MT_CHECK(g.scalars != nullptr, "no scalars");
  dispatch(stream, &Kernels::lion, g);
}

Cost lion_cost(std::int64_t count, int model_bytes) {
  const double n = static_cast<double>(count);
  return {11 * n, n * (20 + model_bytes)};
}

void muon_momentum(Stream& stream, const MuonMomentumArgs& g) {
  const std::int64_t n = g.momentum.size();
  check_f32(g.momentum, n);
  check_f32(g.out, n);
  check_float(g.grad, n);
  MT_CHECK(g.scalars != nullptr, "no scalars");
  dispatch(stream, &Kernels::muon_momentum, g);
}

Cost muon_momentum_cost(std::int64_t count) {
  const double n = static_cast<double>(count);
  return {7 * n, 16 * n};
}

}  // namespace mt::ops
