#include "ops/adamw_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Adamw, adamw_cases())

TEST(Adamw, ASkippedStepTouchesNothing) {
  Data d;
  TestStream st;
  const View w = d.normal(DType::f32, {9}), m = d.normal(DType::f32, {9}), v = d.normal(DType::f32, {9}),
             g = d.normal(DType::f32, {9});
  const auto* now = d.keep(ops::AdamwScalars{0.1f, 1, 1, 1, 1});
  const Doubles before = values(w);
  ops::adamw(st, {w, m, v, g, {}, now});
  EXPECT_EQ(values(w), before);
}

// The range may be cut anywhere (buckets, ZeRO shards): same bits.
TEST(Adamw, AnyCutOfTheRangeGivesTheSameBits) {
  Data d;
  TestStream st;
  const I n = 1003;
  const View w = d.normal(DType::f32, {n}), m = d.zeros(DType::f32, {n}), v = d.zeros(DType::f32, {n}),
             g = d.normal(DType::f32, {n}), b = d.zeros(DType::bf16, {n});
  const View w2 = d.copy(w), m2 = d.copy(m), v2 = d.copy(v), b2 = d.copy(b);
  const auto* now = d.keep(ops::AdamwScalars{0.1f, 0.7f, 0.1f, 0.01f, 0});
  ops::adamw(st, {w, m, v, g, b, now});
  for (I lo = 0; lo < n; lo += 37) {
    const I hi = std::min(n, lo + 37);
    ops::adamw(st, {w2.rows(lo, hi), m2.rows(lo, hi), v2.rows(lo, hi), g.rows(lo, hi), b2.rows(lo, hi), now});
  }
  EXPECT_EQ(values(w), values(w2));
  EXPECT_EQ(values(v), values(v2));
  EXPECT_EQ(values(b), values(b2));
}

// Moments of another dtype and their f32 values.
struct Rounded {
  DType dtype;
  View stored, scales;
  float now = 0.125f, next = 0.25f;

  Rounded(Data& d, DType t, const Doubles& values, bool scaled)
      : dtype(t), stored(d.zeros(t, {static_cast<I>(values.size())})) {
    if (!scaled) now = next = 1;
    scales = d.list(DType::f32, {static_cast<double>(now), static_cast<double>(next)});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float x = static_cast<float>(values[i]) / now;
      if (t == DType::e4m3) stored.as<e4m3>()[i] = to_e4m3(x);
      if (t == DType::f16) stored.as<f16>()[i] = to_f16(x);
      if (t == DType::bf16) stored.as<bf16>()[i] = to_bf16(x);
    }
  }
  View view() const { return stored; }
  ops::MomentScale scale() const {
    return dtype == DType::bf16 ? ops::MomentScale{} : ops::MomentScale{scales.as<float>(), scales.as<float>() + 1};
  }
  double at(std::size_t i, float factor) const {
    const float x = dtype == DType::e4m3  ? to_f32(stored.as<e4m3>()[i])
                    : dtype == DType::f16 ? to_f32(stored.as<f16>()[i])
                                          : to_f32(stored.as<bf16>()[i]);
    return static_cast<double>(x * factor);
  }
};

TEST(Adamw, MomentsOfFewBitsAreComputedInF32AndRoundedOnceByTheirScale) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::e4m3}) {
    Data d;
    TestStream st;
    const I n = 5000;
    const View w = d.normal(DType::f32, {n}), g = d.normal(DType::f32, {n});
    Doubles squares = values(d.normal(DType::f32, {n}, 0.1));
    for (double& x : squares) x = std::abs(x);
    const Rounded m(d, dtype, values(d.normal(DType::f32, {n}, 0.1)), dtype != DType::bf16),
        v(d, dtype, squares, dtype != DType::bf16);
    const auto* now = d.keep(ops::AdamwScalars{0.01f, 0.5f, 0.5f, 0.25f, 0});
    Doubles want_w = values(w), want_m, want_v;
    const Doubles vg = values(g);
    for (std::size_t i = 0; i < vg.size(); ++i) {
      const double x = vg[i] * 0.5, b1 = static_cast<double>(0.9f), b2 = static_cast<double>(0.95f);
      want_m.push_back(b1 * m.at(i, m.now) + (1 - b1) * x);
      want_v.push_back(b2 * v.at(i, v.now) + (1 - b2) * x * x);
      want_w[i] = want_w[i] * (1 - static_cast<double>(0.01f) * 0.1) -
                  static_cast<double>(0.01f) * (want_m[i] / 0.5) / (std::sqrt(want_v[i] / 0.25) + 1e-6);
    }
    ops::AdamwArgs args{w, m.view(), v.view(), g, {}, now, 1, 0.9f, 0.95f, 1e-6f, 0.1f};
    args.exp_avg_scale = m.scale();
    args.exp_avg_sq_scale = v.scale();
    const View largest = d.zeros(DType::f32, {2});
    ops::adamw_largest(st, {args, largest.as<float>(), largest.as<float>() + 1});
    ops::adamw(st, args);
    TestStream::settle();
    const double relative = dtype == DType::e4m3 ? 1.0 / 16 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    const double least = dtype == DType::e4m3 ? 0.25 * 0x1p-10 : 0x1p-20;  // half the smallest number, with its scale
    double most_m = 0, most_v = 0, worst = 0, worst_w = 0;
    for (std::size_t i = 0; i < vg.size(); ++i) {
      most_m = std::max(most_m, std::abs(want_m[i])), most_v = std::max(most_v, want_v[i]);
      worst = std::max(worst, std::abs(m.at(i, m.next) - want_m[i]) / (relative * std::abs(want_m[i]) + least));
      worst = std::max(worst, std::abs(v.at(i, v.next) - want_v[i]) / (relative * std::abs(want_v[i]) + 2 * least));
      worst_w = std::max(worst_w, std::abs(static_cast<double>(w.as<float>()[i]) - want_w[i]));
      if (dtype != DType::bf16) {
        ASSERT_GT(v.at(i, 1), 0) << "never rounded to zero";
      }
    }
    EXPECT_LE(worst, 1.001) << dtype_name(dtype);
    EXPECT_LT(worst_w, 1e-5) << "the weight is of the unrounded moments";
    EXPECT_NEAR(load(largest, 0), most_m, 1e-6);
    EXPECT_NEAR(load(largest, 1), most_v, 1e-6);
  }
}

TEST(Adamw, BiasCorrectionIsOneMinusThePower) {
  for (I step : {1, 2, 3, 1000, 123457})
    EXPECT_FLOAT_EQ(ops::adamw_bias_correction(0.999f, step),
                    static_cast<float>(1 - std::pow(static_cast<double>(0.999f), static_cast<double>(step))));
  EXPECT_EQ(ops::adamw_bias_correction(0.9f, 1), static_cast<float>(1 - static_cast<double>(0.9f)));
}

TEST(Adamw, AScaleIsTheLeastPowerOfTwoThatCovers) {
  Data d;
  TestStream st;
  const double inf = std::numeric_limits<double>::infinity();
  const Doubles largest{0,   0,      448,  65504, 448.1, 65504.1, 1e-30, 1e-30, 3e38, 3e38,
                        447, 0x1p15, 1e-3, 7,     -1,    inf,     NAN,   0x1p-149};
  const View from = d.list(DType::f32, largest), next = d.zeros(DType::f32, {static_cast<I>(largest.size())});
  ops::moment_scales(st, {.largest = from, .next = next, .dtype = {DType::e4m3, DType::f16}});
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const double x = values(from)[i], most = i % 2 == 0 ? 448 : 65504;
    double want = 1;
    if (x > 0 && std::isfinite(x))
      for (want = 0x1p-100; x / want > most;) want *= 2;
    EXPECT_EQ(load(next, static_cast<I>(i)), want) << i << ": " << x;
  }
}

}  // namespace mt::test
