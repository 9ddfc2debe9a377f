#include "ops/gemm_gelu.h"

#include "ops/activation.h"
#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

void gemm_gelu(Stream& stream, const GemmGeluArgs& g) {
  check_gemm(g.product);
  const View& c = g.product.c;
  MT_CHECK(c.num_dims() == 2 && c.dtype == g.product.a.dtype, "c {} of {}", dtype_name(c.dtype), shape_text(c.shape));
  MT_CHECK_FLOAT(g.aux, {c.dim(0), c.dim(1)});
  MT_CHECK(g.aux.dtype == c.dtype && (c.size() == 0 || g.aux.data != c.data), "aux {} beside c {}", dtype_name(g.aux.dtype),
           dtype_name(c.dtype));
  MT_CHECK(!g.product.accumulate && !(g.backward && g.product.bias), "accumulating, or a bias backward");
  if (c.size() != 0) dispatch(stream, &Kernels::gemm_gelu, g);
}

Cost gemm_gelu_cost(const GemmGeluArgs& g) {
  Cost cost = gemm_cost(g.product);
  cost.bytes += static_cast<double>(g.aux.bytes());
  cost.flop += activation_cost(g.aux.dim(0), g.aux.dim(1), false, g.backward, 0).flop;
  return cost;
}

}  // namespace mt::ops
