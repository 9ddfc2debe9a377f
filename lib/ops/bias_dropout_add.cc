#include "ops/bias_dropout_add.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

namespace {

void check_dropout(const Dropout& d, std::int64_t rows) {
  MT_CHECK(d.p >= 0 && d.p < 1, "dropout {}", d.p);
  if (d.p == 0) return;
  MT_CHECK_VIEW(d.ordinals, DType::i64, {rows});
  MT_CHECK_VIEW(d.positions, DType::i32, {rows});
}

}  // namespace

void bias_dropout_add_forward(Stream& stream, const BiasDropoutAddForwardArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  const std::int64_t rows = g.x.dim(0), n = g.x.dim(1);
  MT_CHECK_FLOAT(g.x, {rows, n});
  MT_CHECK_FLOAT(g.out, {rows, n});
  if (g.bias) MT_CHECK_FLOAT(g.bias, {n});
  if (g.residual) MT_CHECK_FLOAT(g.residual, {rows, n});
  check_dropout(g.dropout, rows);
  dispatch(stream, &Kernels::bias_dropout_add_forward, g);
}

void bias_dropout_add_backward(Stream& stream, const BiasDropoutAddBackwardArgs& g) {
  MT_CHECK(g.dout.num_dims() == 2, "dout {}", shape_text(g.dout.shape));
  const std::int64_t rows = g.dout.dim(0), n = g.dout.dim(1);
  MT_CHECK_FLOAT(g.dout, {rows, n});
  if (g.dx) MT_CHECK_FLOAT(g.dx, {rows, n});
  MT_CHECK(g.dx || g.dropout.p == 0, "dropout {} wants dx", g.dropout.p);
  if (g.dbias) MT_CHECK_FLOAT(g.dbias, {n});
  check_dropout(g.dropout, rows);
  dispatch(stream, &Kernels::bias_dropout_add_backward, g);
}

}  // namespace mt::ops
