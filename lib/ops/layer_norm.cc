#include "ops/layer_norm.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

void layer_norm_forward(Stream& stream, const LayerNormForwardArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  const std::int64_t rows = g.x.dim(0), columns = g.x.dim(1);
  MT_CHECK_FLOAT(g.x, {rows, columns});
  MT_CHECK_FLOAT(g.out, {rows, columns});
  MT_CHECK_FLOAT(g.weight, {columns});
  MT_CHECK_FLOAT(g.bias, {columns});
  if (g.mean) MT_CHECK_VIEW(g.mean, DType::f32, {rows});
  if (g.rstd) MT_CHECK_VIEW(g.rstd, DType::f32, {rows});
  dispatch(stream, &Kernels::layer_norm_forward, g);
}

void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  const std::int64_t rows = g.x.dim(0), columns = g.x.dim(1);
  MT_CHECK_FLOAT(g.x, {rows, columns});
  MT_CHECK_FLOAT(g.dout, {rows, columns});
  MT_CHECK_FLOAT(g.weight, {columns});
  MT_CHECK_VIEW(g.mean, DType::f32, {rows});
  MT_CHECK_VIEW(g.rstd, DType::f32, {rows});
  if (g.dx) MT_CHECK_FLOAT(g.dx, {rows, columns});
  if (g.dresidual) MT_CHECK_FLOAT(g.dresidual, {rows, columns});
  MT_CHECK(static_cast<bool>(g.dweight) == static_cast<bool>(g.dbias), "dweight and dbias: both or neither");
  if (g.dweight) {
    MT_CHECK_FLOAT(g.dweight, {columns});
    MT_CHECK_FLOAT(g.dbias, {columns});
  }
  dispatch(stream, &Kernels::layer_norm_backward, g);
}

}  // namespace mt::ops
