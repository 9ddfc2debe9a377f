#include "ops/adamw_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Adamw, adamw_cases())

TEST(Adamw, ASkippedStepTouchesNothing) {
  Data d;
  Stream st;
  const View w = d.normal(DType::f32, {9}), m = d.normal(DType::f32, {9}), v = d.normal(DType::f32, {9}),
             g = d.normal(DType::f32, {9});
  const ops::AdamwScalars now{0.1f, 1, 1, 1, 1};
  const Doubles before = values(w);
  ops::adamw(st, {w, m, v, g, {}, &now});
  EXPECT_EQ(values(w), before);
}

// The range may be cut anywhere (buckets, ZeRO shards): same bits.
TEST(Adamw, AnyCutOfTheRangeGivesTheSameBits) {
  Data d;
  Stream st;
  const I n = 1003;
  const View w = d.normal(DType::f32, {n}), m = d.zeros(DType::f32, {n}), v = d.zeros(DType::f32, {n}),
             g = d.normal(DType::f32, {n}), b = d.zeros(DType::bf16, {n});
  const View w2 = d.copy(w), m2 = d.copy(m), v2 = d.copy(v), b2 = d.copy(b);
  const ops::AdamwScalars now{0.1f, 0.7f, 0.1f, 0.01f, 0};
  ops::adamw(st, {w, m, v, g, b, &now});
  for (I lo = 0; lo < n; lo += 37) {
    const I hi = std::min(n, lo + 37);
    ops::adamw(st, {w2.rows(lo, hi), m2.rows(lo, hi), v2.rows(lo, hi), g.rows(lo, hi), b2.rows(lo, hi), &now});
  }
  EXPECT_EQ(values(w), values(w2));
  EXPECT_EQ(values(v), values(v2));
  EXPECT_EQ(values(b), values(b2));
}

TEST(Adamw, BiasCorrectionIsOneMinusThePower) {
  for (I step : {1, 2, 3, 1000, 123457})
    EXPECT_FLOAT_EQ(ops::adamw_bias_correction(0.999f, step),
                    static_cast<float>(1 - std::pow(static_cast<double>(0.999f), static_cast<double>(step))));
  EXPECT_EQ(ops::adamw_bias_correction(0.9f, 1), static_cast<float>(1 - static_cast<double>(0.9f)));
}

}  // namespace mt::test
