#include "ops/arithmetic.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

namespace {

void check_flat(const View& x, const View& out) {
  MT_CHECK(is_float(x) && is_float(out) && x.shape == out.shape && x.contiguous() && out.contiguous(),
           "{} of {} beside {} of {}", dtype_name(x.dtype), shape_text(x.shape), dtype_name(out.dtype),
           shape_text(out.shape));
}

}  // namespace

void add(Stream& stream, const AddArgs& g) {
  check_flat(g.a, g.out);
  check_flat(g.b, g.out);
  dispatch(stream, &Kernels::add, g);
}

void scale(Stream& stream, const ScaleArgs& g) {
  check_flat(g.x, g.out);
  dispatch(stream, &Kernels::scale, g);
}

void fill(Stream& stream, View out, double value) {
  MT_CHECK(out.contiguous(), "fill of strides {}", shape_text(out.strides));
  dispatch(stream, &Kernels::fill, FillArgs{out, value});
}

void cast(Stream& stream, const CastArgs& g) {
  MT_CHECK(g.x.shape == g.out.shape && g.x.num_dims() >= 1, "{} to {}", shape_text(g.x.shape), shape_text(g.out.shape));
  MT_CHECK(g.x.dtype == g.out.dtype || (is_float(g.x) && is_float(g.out)), "{} to {}", dtype_name(g.x.dtype),
           dtype_name(g.out.dtype));
  if (g.x.size() != 0) dispatch(stream, &Kernels::cast, g);
}

void column_sum(Stream& stream, const ColumnSumArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  MT_CHECK_FLOAT(g.x, {g.x.dim(0), g.x.dim(1)});
  MT_CHECK_FLOAT(g.out, {g.x.dim(1)});
  dispatch(stream, &Kernels::column_sum, g);
}

}  // namespace mt::ops
