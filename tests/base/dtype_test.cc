#include "base/dtype.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace mt {
namespace {

// What a format with `exp_bits` and `man_bits` says, from its definition, in double. OCP e4m3 has no infinity.
double value_of(unsigned bits, int exp_bits, int man_bits, bool has_infinity) {
  const unsigned man = bits & ((1u << man_bits) - 1), exp = (bits >> man_bits) & ((1u << exp_bits) - 1);
  const double sign = (bits >> (exp_bits + man_bits)) & 1u ? -1.0 : 1.0;
  const int bias = (1 << (exp_bits - 1)) - 1;
  const unsigned top = (1u << exp_bits) - 1;
  if (has_infinity && exp == top) return man == 0 ? sign * HUGE_VAL : std::nan("");
  if (!has_infinity && exp == top && man == (1u << man_bits) - 1) return std::nan("");
  if (exp == 0) return sign * std::ldexp(man, 1 - bias - man_bits);
  return sign * std::ldexp(1.0 + std::ldexp(man, -man_bits), static_cast<int>(exp) - bias);
}

// All finite values of 0 and above, ascending: index = bit pattern.
std::vector<double> ladder(int exp_bits, int man_bits, bool has_infinity) {
  std::vector<double> values;
  for (unsigned b = 0; b < (1u << (exp_bits + man_bits)); ++b) {
    const double v = value_of(b, exp_bits, man_bits, has_infinity);
    if (!std::isfinite(v)) break;
    values.push_back(v);
  }
  return values;
}

template <class T>
void expect_reads_as_defined(int exp_bits, int man_bits, bool has_infinity) {
  for (unsigned b = 0; b < (1u << (1 + exp_bits + man_bits)); ++b) {
    const T v{static_cast<decltype(T::bits)>(b)};
    const double want = value_of(b, exp_bits, man_bits, has_infinity);
    const float got = to_f32(v);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << b;
      ASSERT_TRUE(std::isnan(to_f32(from_f32<T>(got)))) << b;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), want) << b;
    ASSERT_EQ(std::signbit(got), std::signbit(want)) << b;
    if (!std::isfinite(want)) continue;
    ASSERT_EQ(from_f32<T>(got).bits, v.bits) << "round trip of " << b;
  }
}

// Around every value: itself, the midpoint to the next (ties to even), and one f32 step to either side of the midpoint.
template <class T>
void expect_rounds_to_nearest_even(int exp_bits, int man_bits, bool has_infinity) {
  const std::vector<double> values = ladder(exp_bits, man_bits, has_infinity);
  const unsigned sign_bit = 1u << (exp_bits + man_bits);
  for (unsigned b = 0; b + 1 < values.size(); ++b) {
    const auto middle = static_cast<float>((values[b] + values[b + 1]) / 2);
    const float below = std::nextafterf(middle, 0.0f), above = std::nextafterf(middle, HUGE_VALF);
    ASSERT_EQ(from_f32<T>(middle).bits, b + (b & 1u)) << middle;
    ASSERT_EQ(from_f32<T>(above).bits, b + 1) << above;
    ASSERT_EQ(from_f32<T>(-middle).bits, (b + (b & 1u)) | sign_bit) << middle;
    if (below > values[b]) {
      ASSERT_EQ(from_f32<T>(below).bits, b) << below;
    }
  }
}

TEST(Dtype, EveryBf16PatternReadsAsDefined) { expect_reads_as_defined<bf16>(8, 7, true); }
TEST(Dtype, EveryF16PatternReadsAsDefined) { expect_reads_as_defined<f16>(5, 10, true); }
TEST(Dtype, EveryE4m3PatternReadsAsDefined) { expect_reads_as_defined<e4m3>(4, 3, false); }
TEST(Dtype, EveryE5m2PatternReadsAsDefined) {
  for (unsigned b = 0; b < 256; ++b) {
    const double want = value_of(b, 5, 2, true);
    const float got = to_f32(e5m2{static_cast<std::uint8_t>(b)});
    ASSERT_EQ(std::isnan(want), std::isnan(got)) << b;
    if (std::isnan(want)) continue;
    ASSERT_EQ(static_cast<double>(got), want) << b;
    if (!std::isfinite(want)) continue;
    ASSERT_EQ(to_e5m2(got).bits, b);
  }
}

TEST(Dtype, Bf16RoundsToNearestEvenAtEveryMidpoint) { expect_rounds_to_nearest_even<bf16>(8, 7, true); }
TEST(Dtype, F16RoundsToNearestEvenAtEveryMidpoint) { expect_rounds_to_nearest_even<f16>(5, 10, true); }
TEST(Dtype, E4m3RoundsToNearestEvenAtEveryMidpoint) { expect_rounds_to_nearest_even<e4m3>(4, 3, false); }
TEST(Dtype, E5m2RoundsToNearestEvenAtEveryMidpoint) { expect_rounds_to_nearest_even<e5m2>(5, 2, true); }

TEST(Dtype, Bf16AndF16OverflowToInfinity) {
  const float max = std::numeric_limits<float>::max();
  EXPECT_EQ(to_bf16(max).bits, 0x7f80);
  EXPECT_EQ(to_bf16(-max).bits, 0xff80);
  EXPECT_EQ(to_bf16(HUGE_VALF).bits, 0x7f80);
  EXPECT_EQ(to_f16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_f16(-1e9f).bits, 0xfc00);
  EXPECT_EQ(to_f16(HUGE_VALF).bits, 0x7c00);
}

TEST(Dtype, Fp8SaturatesAtItsLargestFiniteValue) {
  for (const float big : {449.0f, 464.0f, 465.0f, 1e30f, HUGE_VALF}) {
    EXPECT_EQ(to_f32(to_e4m3(big)), 448.0f);
    EXPECT_EQ(to_f32(to_e4m3(-big)), -448.0f);
  }
  for (const float big : {57345.0f, 61440.0f, 1e30f, HUGE_VALF}) {
    EXPECT_EQ(to_f32(to_e5m2(big)), 57344.0f);
    EXPECT_EQ(to_f32(to_e5m2(-big)), -57344.0f);
  }
}

TEST(Dtype, NanStaysNanWithAnyPayload) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(to_f32(to_bf16(nan))));
    EXPECT_TRUE(std::isnan(to_f32(to_f16(nan))));
    EXPECT_TRUE(std::isnan(to_f32(to_e4m3(nan))));
    EXPECT_TRUE(std::isnan(to_f32(to_e5m2(nan))));
  }
}

TEST(Dtype, NamesRoundTripAndUnknownNamesAreRefused) {
  for (const DType d : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i64,
                        DType::i32, DType::i16, DType::u16, DType::i8, DType::u8})
    EXPECT_EQ(parse_dtype(dtype_name(d)), d);
  EXPECT_FALSE(parse_dtype("F32"));
  EXPECT_FALSE(parse_dtype(""));
}

TEST(Dtype, SizesFollowTheBits) {
  EXPECT_EQ(bytes_of(DType::f64, 3), 24);
  EXPECT_EQ(bytes_of(DType::bf16, 3), 6);
  EXPECT_EQ(bytes_of(DType::e4m3, 3), 3);
}

}  // namespace
}  // namespace mt
