#include "ops/scalar.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace mt::ops {

TEST(Scalar, ExponentialIsWithinTwoTenMillionths) {
  for (double x = -87; x < 88.7; x += 0.00137) {
    const auto f = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(f));
    ASSERT_NEAR(static_cast<double>(exp_f32(f)) / want, 1, 2e-7) << f;
  }
  EXPECT_EQ(exp_f32(0), 1.0f);
  EXPECT_EQ(exp_f32(-200), 0.0f);
  EXPECT_EQ(exp_f32(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(exp_f32(89), std::numeric_limits<float>::infinity());
  EXPECT_NEAR(static_cast<double>(exp_f32(-95)), std::exp(-95.0), 1.5e-45);  // a denormal
  EXPECT_TRUE(std::isnan(exp_f32(std::nanf(""))));
}

TEST(Scalar, LogarithmIsWithinTwoTenMillionths) {
  for (double x = -80; x < 80; x += 0.00117) {
    const auto f = static_cast<float>(std::exp(x));
    const double want = std::log(static_cast<double>(f));
    ASSERT_NEAR(static_cast<double>(log_f32(f)), want, 2e-7 * std::max(1.0, std::abs(want))) << f;
  }
  EXPECT_EQ(log_f32(1), 0.0f);
  EXPECT_TRUE(std::isnan(log_f32(std::nanf(""))));
}

TEST(Scalar, ErrorFunctionIsWithinTwoTenMillionths) {
  for (double x = -6; x < 6; x += 0.0007)
    ASSERT_NEAR(static_cast<double>(erf_f32(static_cast<float>(x))),
                std::erf(static_cast<double>(static_cast<float>(x))), 2e-7)
        << x;
  EXPECT_EQ(erf_f32(0), 0.0f);
}

TEST(Scalar, DropoutThresholdIsTheSmallestWordKept) {
  EXPECT_EQ(dropout_threshold(0.5f), 1u << 23);
  EXPECT_TRUE(dropout_keeps(0x80000000u, dropout_threshold(0.5f)));
  EXPECT_FALSE(dropout_keeps(0x7fffffffu, dropout_threshold(0.5f)));
}

}  // namespace mt::ops
