#include "ops/fp8_cases.h"

#include <limits>

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Fp8, fp8_cases())

TEST(Fp8, TheScaleFillsTheFormatAndNeverOverflowsIt) {
  for (DType format : {DType::e4m3, DType::e5m2}) {
    const double largest = format == DType::e4m3 ? 448 : 57344;
    for (double amax : {448.0, 447.9999, 448.0001, 1.0, 7.0, 3e-9, 1e20, 57344.0, 57345.0, 1e-25}) {
      const auto a = static_cast<float>(amax);
      const double s = static_cast<double>(ops::fp8_scale(a, format, 0));
      EXPECT_LE(static_cast<double>(a) * s, largest) << amax;
      EXPECT_GT(static_cast<double>(a) * s * 2, largest) << amax;
      EXPECT_EQ(std::frexp(s, std::make_unique<int>().get()), 0.5) << "a power of two";
      EXPECT_EQ(static_cast<double>(ops::fp8_scale(a, format, 3)), s / 8);
    }
    for (float odd : {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
      EXPECT_EQ(ops::fp8_scale(odd, format, 2), 1.0f);
  }
}

TEST(Fp8, LargerValuesThanTheScaleAllowsSaturateAndNanStays) {
  Data d;
  TestStream st;
  const View x = d.list(DType::f32, {1000, -1000, 3, NAN}).reshape({1, 4}), out = d.zeros(DType::f32, {1, 4});
  ops::fp8_round(st, {x, out, DType::e4m3, d.list(DType::f32, {448})});  // a magnitude of an earlier step
  const Doubles v = values(out);
  EXPECT_EQ(v[0], 448);
  EXPECT_EQ(v[1], -448);
  EXPECT_EQ(v[2], 3);
  EXPECT_TRUE(std::isnan(v[3]));
}

TEST(Fp8, TheLargestMagnitudeGrowsAndNanWins) {
  Data d;
  TestStream st;
  const View amax = d.list(DType::f32, {2.5});
  ops::abs_max(st, {d.list(DType::bf16, {1, -2}).reshape({1, 2}), amax});
  EXPECT_EQ(values(amax)[0], 2.5);
  ops::abs_max(st, {d.list(DType::bf16, {1, -3}).reshape({2, 1}), amax});
  EXPECT_EQ(values(amax)[0], 3);
  ops::abs_max(st, {d.list(DType::f32, {NAN, 7}).reshape({1, 2}), amax});
  EXPECT_TRUE(std::isnan(values(amax)[0]));
}

TEST(Fp8, TheHistoryKeepsTheNewestFiniteMagnitudes) {
  for (bool recent : {true, false}) {
    Data d;
    TestStream st;
    const View history = d.list(DType::f32, {-1, 3, -1, 9, -1, -1}).reshape({3, 2}), used = d.zeros(DType::f32, {2});
    const double inf = std::numeric_limits<double>::infinity();
    const auto after = [&](double first, double second) {
      const View seen = d.list(DType::f32, {first, second});
      ops::amax_history(st, {.history = history, .seen = seen, .used = used, .most_recent = recent});
      EXPECT_EQ(values(seen), (Doubles{0, 0})) << "recording starts anew";
      return values(used);
    };
    EXPECT_EQ(after(inf, NAN), (Doubles{0, recent ? 3.0 : 9.0})) << "nothing yet, and nothing new";
    EXPECT_EQ(values(history), (Doubles{-1, 3, -1, 9, -1, -1}));
    EXPECT_EQ(after(5, 2), (Doubles{5, recent ? 2.0 : 9.0}));
    EXPECT_EQ(after(0, 1), (Doubles{recent ? 0.0 : 5.0, recent ? 1.0 : 3.0})) << "9 is three steps old";
    EXPECT_EQ(values(history), (Doubles{0, 1, 5, 2, -1, 3}));
  }
}

}  // namespace mt::test
