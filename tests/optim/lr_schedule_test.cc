// Curves against a table made from Megatron's formulas by another program (Python), at every edge.

#include "optim/lr_schedule.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

// max 1e-3, min 1e-5, decay over 1000 samples, the last 200 of them WSD's.
constexpr std::int64_t kSamples[] = {0, 1, 50, 100, 101, 550, 800, 801, 900, 999, 1000, 1001, 5000};
struct Curve {
  const char *style, *wsd;
  double lr[13];
};
// Warm-up from 1e-6 over 100 samples.
constexpr Curve kWithWarmUp[] = {
    {"constant", "linear", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
    {"linear", "linear", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.0009989, 0.000505, 0.00023, 0.0002289, 0.00012, 1.11e-05, 1e-05, 1e-05, 1e-05}},
    {"cosine", "linear", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.0009999969842906, 0.000505, 0.0001258080006561, 0.0001246996558212, 3.985215271098e-05, 1.000301570939e-05, 1e-05, 1e-05, 1e-05}},
    {"inverse-square-root", "linear", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.00099503719021, 0.0004264014327112, 0.0003535533905933, 0.0003533326266688, 0.0003333333333333, 0.0003163859985842, 0.0003162277660168, 1e-05, 1e-05}},
    {"WSD", "exponential", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.001, 0.001, 0.001, 0.0009931497203992, 0.0004200714267494, 1.343703102441e-05, 1e-05, 1e-05, 1e-05}},
    {"WSD", "linear", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.001, 0.001, 0.001, 0.00099505, 0.000505, 1.495e-05, 1e-05, 1e-05, 1e-05}},
    {"WSD", "cosine", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.001, 0.001, 0.001, 0.0009999389330784, 0.000505, 1.006106692158e-05, 1e-05, 1e-05, 1e-05}},
    {"WSD", "minus_sqrt", {1e-06, 1.099e-05, 0.0005005, 0.001, 0.001, 0.001, 0.001, 0.0009299964286625, 0.0002999642866253, 1.247810150863e-05, 1e-05, 1e-05, 1e-05}},
};
constexpr Curve kWithout[] = {
    {"constant", "linear", {0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
    {"linear", "linear", {0.001, 0.00099901, 0.0009505, 0.000901, 0.00090001, 0.0004555, 0.000208, 0.00020701, 0.000109, 1.099e-05, 1e-05, 1e-05, 1e-05}},
    {"cosine", "linear", {0.001, 0.0009999975572749, 0.0009939057285946, 0.0009757729755661, 0.0009752901044549, 0.0004275649398051, 0.0001045365877844, 0.000103624507488, 3.42270244339e-05, 1.000244272508e-05, 1e-05, 1e-05, 1e-05}},
    {"inverse-square-root", "linear", {0.001, 0.001, 0.0001414213562373, 0.0001, 9.9503719021e-05, 4.264014327112e-05, 3.535533905933e-05, 3.533326266688e-05, 3.333333333333e-05, 3.163859985842e-05, 3.162277660168e-05, 1e-05, 1e-05}},
    {"WSD", "exponential", {0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.0009931497203992, 0.0004200714267494, 1.343703102441e-05, 1e-05, 1e-05, 1e-05}},
};

LrSchedule schedule(const Curve& c, std::int64_t warm_up) {
  LrSchedule s;
  s.max_lr = 1e-3, s.min_lr = 1e-5, s.warmup_init = warm_up > 0 ? 1e-6 : 0;
  s.warmup_samples = warm_up, s.decay_samples = 1000, s.wsd_decay_samples = 200;
  s.style = parse_lr_style(c.style);
  s.wsd_style = parse_wsd_style(c.wsd);
  return s;
}

void expect_curve(const Curve& c, std::int64_t warm_up) {
  const LrSchedule s = schedule(c, warm_up);
  for (std::size_t i = 0; i < 13; ++i)
    EXPECT_NEAR(s.learning_rate(kSamples[i]), c.lr[i], 1e-12 * c.lr[i] + 1e-17)
        << c.style << " " << c.wsd << " at " << kSamples[i] << " warm-up " << warm_up;
}

TEST(LrSchedule, EveryStyleIsMegatronsWithWarmUp) {
  for (const Curve& c : kWithWarmUp) expect_curve(c, 100);
}

TEST(LrSchedule, EveryStyleIsMegatronsWithoutWarmUp) {
  for (const Curve& c : kWithout) expect_curve(c, 0);
}

TEST(LrSchedule, NeverLeavesTheRangeAndNeverRisesAfterWarmUp) {
  for (const Curve& c : kWithWarmUp) {
    const LrSchedule s = schedule(c, 100);
    double before = s.max_lr;
    for (std::int64_t n = 101; n < 1100; ++n) {
      const double lr = s.learning_rate(n);
      ASSERT_GE(lr, s.min_lr) << c.style << " " << n;
      ASSERT_LE(lr, before * (1 + 1e-15)) << c.style << " " << n;
      before = lr;
    }
  }
}

TEST(LrSchedule, WeightDecayGrowsByItsStyle) {
  LrSchedule s;
  s.start_weight_decay = 0.02, s.end_weight_decay = 0.1, s.weight_decay_samples = 400;
  const auto at = [&](const char* style, std::int64_t n) {
    s.weight_decay_style = parse_weight_decay_style(style);
    return s.weight_decay(n);
  };
  EXPECT_EQ(at("constant", 0), 0.1);
  for (const char* style : {"linear", "cosine"}) {
    EXPECT_DOUBLE_EQ(at(style, 0), 0.02);
    EXPECT_DOUBLE_EQ(at(style, 200), 0.06);
    EXPECT_EQ(at(style, 400), 0.1);
    EXPECT_EQ(at(style, 401), 0.1);
  }
  EXPECT_DOUBLE_EQ(at("linear", 100), 0.04);
  EXPECT_NEAR(at("cosine", 100), 0.02 + 0.08 * 0.14644660940672624, 1e-15);  // (cos(3π/4) + 1)/2
}

TEST(LrSchedule, UnknownNamesListTheKnownOnes) {
  const auto says = [](const std::function<void()>& parse, const char* flag, const char* last) {
    try {
      parse();
      ADD_FAILURE() << flag;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage);
      EXPECT_NE(std::string(e.what()).find(flag), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(last), std::string::npos) << e.what();
    }
  };
  says([] { parse_lr_style("wsd"); }, "--lr-decay-style 'wsd'", "WSD");
  says([] { parse_wsd_style(""); }, "--lr-wsd-decay-style", "minus_sqrt");
  says([] { parse_weight_decay_style("WSD"); }, "--weight-decay-incr-style 'WSD'", "cosine");
}

TEST(LrSchedule, GoesThroughJsonBitwiseAndRefusesWhatItDoesNotKnow) {
  LrSchedule s = schedule(kWithWarmUp[7], 100);
  s.start_weight_decay = 1.0 / 3, s.end_weight_decay = 2.0 / 3, s.weight_decay_samples = 7;
  s.weight_decay_style = LrStyle::cosine;
  const Json json = parse_json(to_json(s).dump(), "t");
  const LrSchedule back = lr_schedule_from_json(json, "t");
  EXPECT_EQ(to_json(back).dump(), to_json(s).dump());
  for (std::int64_t n = 0; n < 1100; n += 7) {
    EXPECT_EQ(back.learning_rate(n), s.learning_rate(n));
    EXPECT_EQ(back.weight_decay(n), s.weight_decay(n));
  }
  for (const char* key : {"style", "wsd_style", "weight_decay_style"})
    for (int bad : {-1, 5, 300}) {
      Json wrong = json;
      wrong[key] = bad;
      try {
        (void)lr_schedule_from_json(wrong, "t");
        ADD_FAILURE() << key << " " << bad;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::corrupt);
        EXPECT_NE(std::string(e.what()).find(key), std::string::npos);
      }
    }
  for (const auto& [key, value] : json.items()) {
    Json without = json;
    without.erase(key);
    EXPECT_THROW((void)lr_schedule_from_json(without, "t"), Error) << key;
  }
}

}  // namespace
}  // namespace mt
