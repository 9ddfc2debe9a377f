#include "ops/arithmetic.h"
#include "ops/bias_dropout_add_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(BiasDropoutAdd, bias_dropout_add_cases())

// A rank that holds columns [300, 600) drops what the whole drops there.
TEST(BiasDropoutAdd, AShardDropsWhatTheWholeDrops) {
  Data d;
  TestStream st;
  const View x = d.normal(DType::f32, {6, 600}), out = d.zeros(DType::f32, {6, 600}),
             part = d.zeros(DType::f32, {6, 300});
  ops::Dropout drop{0.2f, {1, 2}, d.integers(DType::i64, {6}, 0, 100), d.integers(DType::i32, {6}, 0, 100), 0};
  ops::bias_dropout_add_forward(st, {x, {}, {}, out, drop});
  drop.first_feature = 300;
  ops::bias_dropout_add_forward(st, {x.slice(1, 300, 600), {}, {}, part, drop});
  EXPECT_EQ(values(part), values(out.slice(1, 300, 600)));
}

TEST(BiasDropoutAdd, DropsTheShareItIsAskedTo) {
  Data d;
  TestStream st;
  const View x = d.zeros(DType::f32, {100, 1000}), out = d.zeros(DType::f32, {100, 1000});
  ops::fill(st, x, 1);
  for (double p : {0.1, 0.5, 0.9}) {
    ops::bias_dropout_add_forward(st, {x,
                                       {},
                                       {},
                                       out,
                                       {static_cast<float>(p),
                                        {5, 6},
                                        d.integers(DType::i64, {100}, 0, 9),
                                        d.integers(DType::i32, {100}, 0, 1 << 30),
                                        0}});
    double dropped = 0;
    for (double v : values(out)) dropped += v == 0;
    EXPECT_NEAR(dropped / 1e5, p, 0.006);
  }
}

TEST(BiasDropoutAdd, BackwardOfNoDropoutInPlaceTouchesNothing) {
  Data d;
  TestStream st;
  const View dout = d.normal(DType::f32, {3, 8}), db = d.zeros(DType::f32, {8});
  const Doubles before = values(dout);
  ops::bias_dropout_add_backward(st, {dout, dout, db, {}});
  EXPECT_EQ(values(dout), before);
  EXPECT_NE(values(db), Doubles(8, 0.0));
}

}  // namespace mt::test
