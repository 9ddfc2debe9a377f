#include <cmath>

#include "ops/embedding_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Rotary, rotary_cases())

TEST(Rotary, FrequenciesFallFromOneToTheInverseBase) {
  ops::RotarySpec s;
  s.rotary_dim = 8;
  s.base = 500000;
  const auto f = ops::rotary_frequencies(s);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_FLOAT_EQ(f[1], static_cast<float>(std::pow(500000.0, -0.25)));
  EXPECT_FLOAT_EQ(f[3], static_cast<float>(std::pow(500000.0, -0.75)));
}

// Values from the published rule by hand: head dim 128, base 500000, factor 8, low 1, high 4, 8192 positions.
TEST(Rotary, LlamaThreeScalingKeepsShortWavesAndStretchesLongOnes) {
  ops::RotarySpec plain, scaled;
  plain.rotary_dim = scaled.rotary_dim = 128;
  plain.base = scaled.base = 500000;
  scaled.factor = 8;
  const auto a = ops::rotary_frequencies(plain), b = ops::rotary_frequencies(scaled);
  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double wave = 2 * M_PI / static_cast<double>(a[i]);
    if (wave < 2048) {
      EXPECT_EQ(a[i], b[i]);
      ++kept;
    } else if (wave > 8192) {
      EXPECT_FLOAT_EQ(a[i] / 8, b[i]);
      ++stretched;
    } else {
      const double smooth = (8192 / wave - 1) / 3;
      EXPECT_NEAR(static_cast<double>(b[i] / a[i]), (1 - smooth) / 8 + smooth, 1e-5);
      ++blended;
    }
  }
  EXPECT_EQ(kept + stretched + blended, 64);
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(stretched, 29);
}

TEST(Rotary, TurningBackRestoresTheInput) {
  Data d;
  TestStream st;
  ops::RotarySpec s;
  s.rotary_dim = 16;
  const auto host = ops::rotary_table(s, 64);
  const View table = d.zeros(DType::f32, {64, 16}), x = d.normal(DType::f32, {20, 2, 16}),
             at = d.integers(DType::i32, {20}, 0, 64);
  std::memcpy(table.data, host.data(), host.size() * 4);
  const Doubles before = values(x);
  ops::rotary(st, {x, at, table, true, false});
  ops::rotary(st, {x, at, table, true, true});
  const Doubles after = values(x);
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-6);
}

}  // namespace mt::test
