#pragma once
// Cases of ops/gemm_gelu.h: sums in double, GELU and its derivative by their definitions.

#include <cmath>

#include "ops/gemm_gelu.h"
#include "ops/op_case.h"

namespace mt::test {

struct GemmGeluShape {
  I m, n, k;
  DType dtype;
  bool ta, tb, bias, backward;
  I pad = 0;  // elements between rows of c and aux
};

inline double gelu_of(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
// By differences of the function.
inline double gelu_slope_of(double x) { return (gelu_of(x + 1e-4) - gelu_of(x - 1e-4)) / 2e-4; }

inline OpCase gemm_gelu_case(const GemmGeluShape& s) {
  return {fmt::format("gemm gelu {}x{}x{} {} ta {} tb {} bias {} backward {} pad {}", s.m, s.n, s.k, dtype_name(s.dtype), s.ta,
                      s.tb, s.bias, s.backward, s.pad),
          [s] {
            Prepared p;
            Data& d = *p.data;
            ops::GemmGeluArgs g;
            ops::GemmArgs& q = g.product;
            const double size = 1 / std::sqrt(static_cast<double>(std::max<I>(s.k, 1)));  // sums of about 1
            q.a = d.normal(s.dtype, s.ta ? Shape{s.k, s.m} : Shape{s.m, s.k});
            q.b = d.normal(s.dtype, s.tb ? Shape{s.n, s.k} : Shape{s.k, s.n}, size);
            q.c = d.normal(s.dtype, {s.m, s.n + s.pad}).slice(1, 0, s.n);
            q.trans_a = s.ta, q.trans_b = s.tb;
            g.aux = d.normal(s.dtype, {s.m, s.n + s.pad}).slice(1, 0, s.n);
            g.backward = s.backward;
            if (s.bias) q.bias = d.normal(s.dtype, {s.n});
            const Doubles a = values(q.a), b = values(q.b), aux = values(g.aux),
                          bias = s.bias ? values(q.bias) : Doubles(z(s.n), 0.0);
            Doubles sums, c;
            for (I i = 0; i < s.m; ++i)
              for (I j = 0; j < s.n; ++j) {
                double sum = bias[z(j)];
                for (I k = 0; k < s.k; ++k) sum += a[z(s.ta ? k * s.m + i : i * s.k + k)] * b[z(s.tb ? j * s.k + k : k * s.n + j)];
                sums.push_back(s.backward ? aux[z(i * s.n + j)] : sum);
                c.push_back(s.backward ? sum * gelu_slope_of(aux[z(i * s.n + j)]) : gelu_of(sum));
              }
            p.run = [g](Stream& st) { ops::gemm_gelu(st, g); };
            p.cost = ops::gemm_gelu_cost(g);
            // In two steps the sum is rounded before the function, and once more after.
            const double f32_part = 2e-6 + 2e-8 * static_cast<double>(s.k);
            p.outputs = {{"aux", g.aux, sums, tolerance(s.dtype, f32_part)}, {"c", q.c, c, 2.5 * tolerance(s.dtype, f32_part)}};
            return p;
          }};
}

// Shapes and dtypes the library takes: 16 bits, rows of eight.
inline std::vector<OpCase> gemm_gelu_fused_cases() {
  std::vector<OpCase> out;
  for (const DType t : {DType::bf16, DType::f16})
    for (const I pad : {0, 8}) {
      out.push_back(gemm_gelu_case({37, 48, 29, t, false, true, true, false, pad}));
      out.push_back(gemm_gelu_case({130, 136, 70, t, false, true, false, false, pad}));
      out.push_back(gemm_gelu_case({37, 48, 29, t, false, false, false, true, pad}));
      out.push_back(gemm_gelu_case({40, 264, 33, t, true, true, false, true, pad}));
    }
  return out;
}
// Those it does not.
inline std::vector<OpCase> gemm_gelu_odd_cases() {
  std::vector<OpCase> out;
  for (const bool backward : {false, true}) {
    out.push_back(gemm_gelu_case({20, 24, 16, DType::f32, false, true, !backward, backward}));
    out.push_back(gemm_gelu_case({20, 21, 16, DType::bf16, false, true, !backward, backward}));
    out.push_back(gemm_gelu_case({20, 24, 16, DType::bf16, false, true, !backward, backward, 3}));
    out.push_back(gemm_gelu_case({5, 8, 0, DType::bf16, false, true, !backward, backward}));
  }
  return out;
}

}  // namespace mt::test
