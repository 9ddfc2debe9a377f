#include "ops/norm_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Norm, norm_cases())

TEST(Norm, BackwardMayWriteOverItsInputs) {
  for (bool layer : {false, true}) {
    const NormShape s{9, 40, DType::f32, DType::f32, layer, false, true};
    Data d;
    const NormInputs in(d, s);
    const View mean = d.zeros(DType::f32, {9}), rstd = d.zeros(DType::f32, {9}), y = d.zeros(DType::f32, {9, 40}),
               dx = d.zeros(DType::f32, {9, 40}), dw = d.zeros(DType::f32, {40}), db = d.zeros(DType::f32, {40}),
               over = d.copy(in.dout), dw2 = d.zeros(DType::f32, {40}), db2 = d.zeros(DType::f32, {40});
    TestStream st;
    if (layer) {
      ops::layer_norm_forward(st, {in.x, in.w, in.b, y, mean, rstd});
      ops::layer_norm_backward(st, {in.dout, in.x, in.w, mean, rstd, in.residual, dx, dw, db});
      ops::layer_norm_backward(st, {over, in.x, in.w, mean, rstd, in.residual, over, dw2, db2});
    } else {
      ops::rms_norm_forward(st, {in.x, in.w, y, rstd});
      ops::rms_norm_backward(st, {in.dout, in.x, in.w, rstd, in.residual, dx, dw});
      ops::rms_norm_backward(st, {over, in.x, in.w, rstd, in.residual, over, dw2});
    }
    EXPECT_EQ(values(over), values(dx));
    EXPECT_EQ(values(dw2), values(dw));
  }
}

}  // namespace mt::test
