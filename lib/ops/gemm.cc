#include "ops/gemm.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

void check_gemm(const GemmArgs& g) {
  const int d = g.c.num_dims();
  MT_CHECK((d == 2 || d == 3) && g.a.num_dims() == d && g.b.num_dims() == d, "dims of a {}, b {}, c {}",
           shape_text(g.a.shape), shape_text(g.b.shape), shape_text(g.c.shape));
  const std::int64_t k = g.trans_a ? g.a.dim(-2) : g.a.dim(-1);
  MT_CHECK((g.trans_a ? g.a.dim(-1) : g.a.dim(-2)) == g.c.dim(-2) &&
               (g.trans_b ? g.b.dim(-2) : g.b.dim(-1)) == g.c.dim(-1) && (g.trans_b ? g.b.dim(-1) : g.b.dim(-2)) == k &&
               (d == 2 || (g.a.dim(0) == g.c.dim(0) && g.b.dim(0) == g.c.dim(0))),
           "a {}{} times b {}{} is no c {}", shape_text(g.a.shape), g.trans_a ? " transposed" : "",
           shape_text(g.b.shape), g.trans_b ? " transposed" : "", shape_text(g.c.shape));
  MT_CHECK(is_float(g.a) && g.b.dtype == g.a.dtype && (g.c.dtype == DType::f32 || g.c.dtype == g.a.dtype),
           "dtypes a {}, b {}, c {}", dtype_name(g.a.dtype), dtype_name(g.b.dtype), dtype_name(g.c.dtype));
  for (const View* v : {&g.a, &g.b, &g.c})
    MT_CHECK((v->dim(-1) <= 1 || v->stride(-1) == 1) && (v->dim(-2) <= 1 || v->stride(-2) >= v->dim(-1)),
             "strides {} of {}", shape_text(v->strides), shape_text(v->shape));
  MT_CHECK(!g.accumulate || !g.bias, "accumulate with a bias");
  if (g.bias)
    MT_CHECK((g.bias.dtype == DType::f32 || g.bias.dtype == g.a.dtype) && g.bias.shape == Shape{g.c.dim(-1)} &&
                 g.bias.contiguous(),
             "bias {} of {}", dtype_name(g.bias.dtype), shape_text(g.bias.shape));
}

void gemm(Stream& stream, const GemmArgs& args) {
  check_gemm(args);
  if (args.c.size() != 0) dispatch(stream, &Kernels::gemm, args);
}

Cost gemm_cost(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, int bytes_per_element,
               int bytes_per_result) {
  const double b = static_cast<double>(batch), dm = static_cast<double>(m), dn = static_cast<double>(n),
               dk = static_cast<double>(k);
  return {2 * b * dm * dn * dk, b * ((dm * dk + dk * dn) * bytes_per_element + dm * dn * bytes_per_result)};
}

Cost gemm_cost(const GemmArgs& g) {
  const std::int64_t batch = g.c.num_dims() == 3 ? g.c.dim(0) : 1;
  return gemm_cost(batch, g.c.dim(-2), g.c.dim(-1), g.trans_a ? g.a.dim(-2) : g.a.dim(-1), bits_of(g.a.dtype) / 8,
                   bits_of(g.c.dtype) / 8 * (g.accumulate ? 2 : 1));
}

}  // namespace mt::ops
