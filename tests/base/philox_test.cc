#include "base/philox.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace mt {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers published with the Random123 library (philox4x32, 10 rounds).
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0}, 0, 0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysBelowOneAndKeeps24Bits) {
  EXPECT_EQ(uniform_f32(0), 0.0f);
  EXPECT_EQ(uniform_f32(0xffffffff), 1.0f - 0x1p-24f);
  EXPECT_EQ(uniform_f32(0x80000000), 0.5f);
}

TEST(Philox, KeysDifferInSeedPurposeAndName) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 63})
    for (const Purpose p : {Purpose::init, Purpose::hidden_dropout, Purpose::shuffle})
      for (std::uint64_t name : {0ull, 1ull, 1ull << 32}) {
        const PhiloxKey k = make_key(seed, p, name);
        keys.insert({k.k0, k.k1});
      }
  EXPECT_EQ(keys.size(), 27u);
}

// The bits of every run hang on these: a change here changes all initial weights.
TEST(Philox, KeyIsTheOneOfTheFirstRelease) {
  // splitmix64 chained over seed, purpose and name, in 128-bit arithmetic cut to 64.
  const auto step = [](unsigned __int128 x) {
    const unsigned __int128 mask = 0xffffffffffffffffull;
    x = (x + 0x9e3779b97f4a7c15ull) & mask;
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull) & mask;
    x = ((x ^ (x >> 27)) * 0x94d049bb133111ebull) & mask;
    return x ^ (x >> 31);
  };
  const auto want = static_cast<std::uint64_t>(step(step(step(42) ^ 1) ^ 0xabcdefull));
  const PhiloxKey got = make_key(42, Purpose::init, 0xabcdef);
  EXPECT_EQ((static_cast<std::uint64_t>(got.k1) << 32) | got.k0, want);
}

// Phi(x) of the lower half through erfc, which keeps its relative accuracy in the tail.
double lower_probability(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Relative error of the quantile = error of the probability / (density * x).
double relative_error(std::uint64_t bits) {
  const double p = (static_cast<double>(bits) + 0.5) * 0x1p-53, x = normal_from_bits(bits);
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * 3.14159265358979323846);
  return std::fabs((lower_probability(x) - p) / (density * x));
}

TEST(Normal, MatchesTheInverseOfErfcWithin2e9Relative) {
  constexpr std::uint64_t kHalf = 1ull << 52;
  double worst = 0;
  for (std::uint64_t i = 1; i < 200000; ++i) worst = std::max(worst, relative_error(kHalf / 200000 * i));
  // Powers of two reach into the far tail, where p = 2^-53 and less.
  for (int s = 0; s < 52; ++s) worst = std::max(worst, relative_error(1ull << s));
  worst = std::max(worst, relative_error(0));
  EXPECT_LT(worst, 2e-9);
  EXPECT_GT(worst, 1e-11) << "the reference is not independent";
}

TEST(Normal, IsOddAroundTheMiddle) {
  constexpr std::uint64_t kAll = 1ull << 53;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t bits = i * 4503599627371ull;
    EXPECT_EQ(normal_from_bits(bits), -normal_from_bits(kAll - 1 - bits));
  }
  EXPECT_LT(std::fabs(normal_from_bits(kAll / 2)), 1e-15);
}

TEST(Normal, RisesWithItsBitsOnAGridThatCrossesTheTailBorders) {
  double last = normal_from_bits(0);
  for (std::uint64_t i = 1; i <= 100000; ++i) {
    const double x = normal_from_bits((1ull << 53) / 100001 * i);
    ASSERT_GT(x, last) << i;
    last = x;
  }
}

TEST(Normal, HasMeanZeroAndVarianceOneOverPhilox) {
  const PhiloxKey key = make_key(1, Purpose::init, 2);
  double sum = 0, squares = 0;
  constexpr int kCount = 200000;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Words w = philox(key, i, 0, 0, 0);
    const double x = normal_from_bits(((static_cast<std::uint64_t>(w[1]) << 32) | w[0]) >> 11);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
}

// Bits pinned: an optimisation or a contraction that changes them would change every run.
TEST(Normal, HasPinnedBits) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(normal_from_bits(0)), 0xc02095b059a2ffc4ull);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(normal_from_bits(123456789012345ull)), 0xc001a50aead39b32ull);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(normal_from_bits(3000000000000000ull)), 0xbfdb9d0b1365b253ull);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(normal_from_bits(9007199254740991ull)), 0x402095b059a2ffc4ull);
}

}  // namespace
}  // namespace mt
