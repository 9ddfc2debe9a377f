#include "ops/rms_norm.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

void rms_norm_forward(Stream& stream, const RmsNormForwardArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  const std::int64_t rows = g.x.dim(0), columns = g.x.dim(1);
  MT_CHECK_FLOAT(g.x, {rows, columns});
  MT_CHECK_FLOAT(g.out, {rows, columns});
  MT_CHECK_FLOAT(g.weight, {columns});
  if (g.rstd) MT_CHECK_VIEW(g.rstd, DType::f32, {rows});
  dispatch(stream, &Kernels::rms_norm_forward, g);
}

void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  const std::int64_t rows = g.x.dim(0), columns = g.x.dim(1);
  MT_CHECK_FLOAT(g.x, {rows, columns});
  MT_CHECK_FLOAT(g.dout, {rows, columns});
  MT_CHECK_FLOAT(g.weight, {columns});
  MT_CHECK_VIEW(g.rstd, DType::f32, {rows});
  if (g.dx) MT_CHECK_FLOAT(g.dx, {rows, columns});
  if (g.dresidual) MT_CHECK_FLOAT(g.dresidual, {rows, columns});
  if (g.dweight) MT_CHECK_FLOAT(g.dweight, {columns});
  dispatch(stream, &Kernels::rms_norm_backward, g);
}

Cost norm_cost(std::int64_t rows, std::int64_t columns, int bytes_per_element, bool backward) {
  const double n = static_cast<double>(rows) * static_cast<double>(columns);
  return {n * (backward ? 10 : 4), n * bytes_per_element * (backward ? 4 : 2)};
}

}  // namespace mt::ops
