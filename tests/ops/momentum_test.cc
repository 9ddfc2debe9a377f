#include "ops/momentum_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Momentum, momentum_cases())

TEST(Momentum, ASkippedStepTouchesNothing) {
  Data d;
  TestStream st;
  const View w = d.normal(DType::f32, {9}), m = d.normal(DType::f32, {9}), g = d.normal(DType::f32, {9});
  const auto* now = d.keep(ops::AdamwScalars{0.1f, 1, 1, 1, 1});
  const Doubles before = values(w), momentum = values(m);
  ops::sgd(st, {w, m, g, {}, now});
  ops::lion(st, {w, m, g, {}, now});
  ops::muon_momentum(st, {m, g, w, now});
  EXPECT_EQ(values(w), before);
  EXPECT_EQ(values(m), momentum);
}

// The sign of nothing is nothing: a weight without gradient and momentum stays, but for its decay.
TEST(Momentum, LionLeavesWhatHasNoGradient) {
  Data d;
  TestStream st;
  const View w = d.normal(DType::f32, {9}), m = d.zeros(DType::f32, {9}), g = d.zeros(DType::f32, {9});
  const auto* now = d.keep(ops::AdamwScalars{0.1f, 1, 0, 0, 0});
  const Doubles before = values(w);
  ops::lion(st, {w, m, g, {}, now});
  EXPECT_EQ(values(w), before);
}

TEST(Momentum, AnyCutOfTheRangeGivesTheSameBits) {
  Data d;
  TestStream st;
  const I n = 1003;
  const View w = d.normal(DType::f32, {n}), m = d.zeros(DType::f32, {n}), g = d.normal(DType::f32, {n}),
             b = d.zeros(DType::bf16, {n});
  const View w2 = d.copy(w), m2 = d.copy(m), b2 = d.copy(b);
  const auto* now = d.keep(ops::AdamwScalars{0.1f, 0.7f, 0, 0, 0});
  ops::lion(st, {w, m, g, b, now, 0.9f, 0.98f, 0.1f});
  ops::sgd(st, {w, m, g, b, now, 0.9f, 0.1f});
  for (I lo = 0; lo < n; lo += 37) {
    const I hi = std::min(n, lo + 37);
    const auto part = [&](const View& v) { return v.rows(lo, hi); };
    ops::lion(st, {part(w2), part(m2), part(g), part(b2), now, 0.9f, 0.98f, 0.1f});
    ops::sgd(st, {part(w2), part(m2), part(g), part(b2), now, 0.9f, 0.1f});
  }
  EXPECT_EQ(values(w), values(w2));
  EXPECT_EQ(values(m), values(m2));
  EXPECT_EQ(values(b), values(b2));
}

}  // namespace mt::test
