#include "ops/activation_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Activation, activation_cases())

TEST(Activation, MayWriteOverItsInput) {
  Data d;
  const View x = d.normal(DType::f32, {5, 70}), over = d.copy(x), y = d.zeros(DType::f32, {5, 70}),
             dout = d.normal(DType::f32, {5, 70}), dx = d.zeros(DType::f32, {5, 70}), over_dout = d.copy(dout);
  TestStream st;
  ops::activation_forward(st, {x, {}, y});
  ops::activation_backward(st, {x, {}, dout, dx, {}});
  ops::activation_backward(st, {x, {}, over_dout, over_dout, {}});
  ops::activation_forward(st, {over, {}, over});
  EXPECT_EQ(values(over), values(y));
  EXPECT_EQ(values(over_dout), values(dx));
}

TEST(Activation, HugeAndInfiniteInputsStayWhatTheyShouldBe) {
  Data d;
  TestStream st;
  const double inf = std::numeric_limits<double>::infinity();
  const View x = d.list(DType::f32, {1e4, -1e4, 0, -0.0, inf, std::nan("")}).reshape({1, 6});
  for (ops::Activation a : {ops::Activation::gelu_tanh, ops::Activation::gelu_erf, ops::Activation::silu}) {
    const View y = d.zeros(DType::f32, {1, 6});
    ops::activation_forward(st, {x, {}, y, a});
    const Doubles v = values(y);
    EXPECT_EQ(v[0], 1e4);
    EXPECT_EQ(v[1], 0);
    EXPECT_EQ(v[2], 0);
    EXPECT_EQ(v[4], inf);
    EXPECT_TRUE(std::isnan(v[5])) << ops::activation_name(a);
  }
}

}  // namespace mt::test
