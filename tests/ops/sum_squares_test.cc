#include "ops/sum_squares.h"

#include <algorithm>
#include <limits>
#include <random>

#include "ops/op_test.h"

namespace mt::test {

namespace {

std::vector<std::int64_t> bins_of(const View& x, int threads = 1) {
  Data d;
  const View bins = d.zeros(DType::i64, {ops::kSumSquaresSize});
  TestStream st(threads);
  ops::sum_squares(st, {x, bins});
  st.synchronize();
  return {bins.as<std::int64_t>(), bins.as<std::int64_t>() + ops::kSumSquaresSize};
}

// Numbers of all sizes an f32 has.
View wild(Data& d, I n) {
  const View x = d.zeros(DType::f32, {n});
  std::mt19937 random(5);
  for (I i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    x.as<float>()[i] = (bits >> 23 & 255) == 255 ? 1.0f : std::bit_cast<float>(bits);
  }
  return x;
}

}  // namespace

TEST(SumSquares, EqualsAnExactSum) {
  Data d;
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (I n : {0, 1, 17, 70000}) {
      const View x = d.normal(t, {n}, 1e-3);
      long double want = 0;
      for (double v : values(x)) want += static_cast<long double>(v) * static_cast<long double>(v);
      EXPECT_NEAR(ops::sum_squares_value(bins_of(x)), static_cast<double>(want), 1e-14 * static_cast<double>(want));
    }
}

TEST(SumSquares, SingleSquaresAreExactAtEveryExponent) {
  Data d;
  for (int e = 0; e < 255; ++e)
    for (std::uint32_t mantissa : {0u, 1u, 0x7fffffu, 0x2aaaaau}) {
      const float f = std::bit_cast<float>(static_cast<std::uint32_t>(e) << 23 | mantissa);
      const View x = d.list(DType::f32, {static_cast<double>(f)});
      EXPECT_EQ(ops::sum_squares_value(bins_of(x)), static_cast<double>(f) * static_cast<double>(f)) << f;
    }
}

TEST(SumSquares, IsTheSameForAnyOrderCutAndNumberOfThreads) {
  Data d;
  const I n = 300000;
  const View x = wild(d, n), turned = d.copy(x);
  std::reverse(turned.as<float>(), turned.as<float>() + n);
  const auto whole = bins_of(x);
  EXPECT_EQ(whole, bins_of(turned));
  EXPECT_EQ(whole, bins_of(x, 2));
  EXPECT_EQ(whole, bins_of(x, 3));
  // Ranks with odd shards, summed as an integer all-reduce does: the same value, if not the same carries.
  std::vector<std::int64_t> sum(ops::kSumSquaresSize);
  for (I lo = 0; lo < n; lo += 41113) {
    const auto part = bins_of(x.rows(lo, std::min(n, lo + 41113)));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  EXPECT_EQ(ops::sum_squares_value(sum), ops::sum_squares_value(whole));
  EXPECT_GT(ops::sum_squares_value(whole), 0);
}

TEST(SumSquares, CountsWhatIsNotFinite) {
  Data d;
  const double inf = std::numeric_limits<double>::infinity();
  const auto bins = bins_of(d.list(DType::f32, {1, inf, -inf, std::nan(""), 2}));
  EXPECT_EQ(ops::sum_squares_non_finite(bins), 3);
  EXPECT_TRUE(std::isnan(ops::sum_squares_value(bins)));
}

TEST(SumSquares, LargestElementsDoNotOverflow) {
  Data d;
  const View x = d.zeros(DType::f32, {100000});
  std::fill(x.as<float>(), x.as<float>() + 100000, std::numeric_limits<float>::max());
  const double f = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_NEAR(ops::sum_squares_value(bins_of(x, 2)) / (f * f), 1e5, 1e-9);
}

TEST(SumSquares, TheInverseNormIsThatOfTheExactSumNeverAboveOneOverTheLeast) {
  Data d;
  TestStream st;
  const auto inverse = [&](const View& x, double least) {
    const View bins = d.zeros(DType::i64, {ops::kSumSquaresSize}), out = d.zeros(DType::f32, {1});
    ops::sum_squares(st, {x, bins});
    ops::inverse_norm(st, {.bins = bins, .out = out, .least = least});
    return load(out, 0);
  };
  for (double spread : {1e-30, 1e-3, 1.0, 1e15})
    for (I n : {1, 300, 4097}) {
      const View x = d.normal(DType::f32, {n}, spread);
      long double sum = 0;
      for (double v : values(x)) sum += static_cast<long double>(v) * static_cast<long double>(v);
      const auto want = static_cast<double>(static_cast<float>(1 / std::sqrt(static_cast<double>(sum))));
      EXPECT_EQ(inverse(x, 1e-35), want) << n << " of " << spread;
      EXPECT_EQ(inverse(x, 1e20), static_cast<double>(1e-20f));
    }
  EXPECT_EQ(inverse(d.zeros(DType::f32, {5}), 1e-7), static_cast<double>(1e7f));
  EXPECT_TRUE(std::isnan(inverse(d.list(DType::f32, {1, std::numeric_limits<double>::infinity()}), 1e-7)));
}

}  // namespace mt::test
