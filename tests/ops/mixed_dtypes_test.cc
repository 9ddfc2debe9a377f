// Results and gradients in f32 beside operands of 16 bits, and biases of another dtype than the result.
#include <gtest/gtest.h>

#include "ops/attention_cases.h"
#include "ops/gemm_cases.h"
#include "ops/op_test.h"

namespace mt::test {

TEST(MixedDtypes, AttentionOfHalvesGivesAndTakesF32) {
  const AttentionCase c{{45, 20}, {45, 33}, 4, 2, 64, DType::bf16};
  for (bool f32_in : {false, true}) {
    expect_right({f32_in ? "dout in f32" : "dout in bf16", [=] {
                    Prepared p;
                    Data& d = *p.data;
                    AttentionInputs in(d, c);
                    if (f32_in) {
                      // The same numbers, so that rounding them once more loses nothing.
                      const Doubles v = values(in.dout);
                      const View wide = d.zeros(DType::f32, in.dout.shape);
                      for (I i = 0; i < wide.size(); ++i) store(wide, i, v[z(i)]);
                      in.dout = wide;
                    }
                    const View out = d.zeros(DType::f32, in.dout.shape), lse = d.zeros(DType::f32, {in.tq, c.heads}),
                               dq = d.zeros(DType::f32, in.dout.shape),
                               dk = d.zeros(DType::f32, {in.tk, c.groups, c.dim}),
                               dv = d.zeros(DType::f32, {in.tk, c.groups, c.dim});
                    const AttentionAnswer want = attention_reference(c, in);
                    p.run = [=](Stream& st) {
                      ops::attention_forward(st, {in.q, in.k, in.v, out, lse, in.shape});
                      ops::attention_backward(st, {in.q, in.k, in.v, out, lse, in.dout, dq, dk, dv, in.shape});
                    };
                    p.outputs = {{"out", out, want.out, 2e-3},
                                 {"lse", lse, want.lse, 1e-5},
                                 {"dq", dq, want.dq, 6e-3},
                                 {"dk", dk, want.dk, 6e-3},
                                 {"dv", dv, want.dv, 6e-3}};
                    return p;
                  }});
  }
}

TEST(MixedDtypes, GemmAddsABiasOfEitherDtype) {
  for (DType result : {DType::f32, DType::bf16})
    for (DType bias_type : {DType::f32, DType::bf16})
      for (I batch : {0, 2})
        expect_right(
            {fmt::format("{} with a bias of {} batch {}", dtype_name(result), dtype_name(bias_type), batch), [=] {
               Prepared p;
               Data& d = *p.data;
               const Shape a = batch > 0 ? Shape{batch, 19, 40} : Shape{19, 40},
                           b = batch > 0 ? Shape{batch, 40, 24} : Shape{40, 24},
                           c = batch > 0 ? Shape{batch, 19, 24} : Shape{19, 24};
               ops::GemmArgs g;
               g.a = d.normal(DType::bf16, a);
               g.b = d.normal(DType::bf16, b);
               g.c = d.normal(result, c);
               g.bias = d.normal(bias_type, {24});
               const Doubles va = values(g.a), vb = values(g.b), bias = values(g.bias);
               Doubles want;
               for (I i = 0; i < std::max<I>(batch, 1) * 19; ++i)
                 for (I j = 0; j < 24; ++j) {
                   double sum = bias[z(j)];
                   for (I k = 0; k < 40; ++k) sum += va[z(i * 40 + k)] * vb[z((i / 19 * 40 + k) * 24 + j)];
                   want.push_back(sum);
                 }
               p.run = [=](Stream& st) { ops::gemm(st, g); };
               p.outputs = {{"c", g.c, want, tolerance(result, 5e-6)}};
               return p;
             }});
}

}  // namespace mt::test
