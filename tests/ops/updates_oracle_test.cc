// Five steps of SGD and AdamW against PyTorch's (tests/golden/make_updates.py), with learning rates that change.

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "ops/momentum.h"
#include "ops/op_case.h"

namespace mt::test {
namespace {

constexpr I kCount = 12;

struct Steps {
  Data d;
  TestStream st;
  View w = d.zeros(DType::f32, {kCount}), g = d.zeros(DType::f32, {kCount}), m = d.zeros(DType::f32, {kCount}),
       v = d.zeros(DType::f32, {kCount});
  Steps() {
    for (I i = 0; i < kCount; ++i) store(w, i, static_cast<double>(i * 29 % 41 - 20) / 64);
  }
  void step(const std::string& rule, I number, double rate) {
    for (I i = 0; i < kCount; ++i) store(g, i, static_cast<double>((i * 17 + number * 23) % 31 - 15) / 32);
    const auto* now = d.keep(ops::AdamwScalars{static_cast<float>(rate), 1, ops::adamw_bias_correction(0.9f, number),
                                ops::adamw_bias_correction(0.95f, number), 0});
    if (rule == "adamw") ops::adamw(st, {w, m, v, g, {}, now, 1, 0.9f, 0.95f, 1e-6f, 0.125f});
    else ops::sgd(st, {w, rule == "sgd" ? m : View(), g, {}, now, 0.9f, 0.125f});
  }
};

TEST(UpdatesOracle, StepsOfSgdAndAdamwArePyTorchs) {
  const char* source = std::getenv("MT_TEST_SOURCE");
  std::ifstream in(std::string(source != nullptr ? source : ".") + "/tests/golden/updates.tsv");
  ASSERT_TRUE(in) << "MT_TEST_SOURCE does not say where tests/golden is";
  std::map<std::string, Steps> runs;
  std::string line;
  int rows = 0;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string rule;
    I number = 0;
    double rate = 0;
    fields >> rule >> number >> rate;
    Steps& r = runs[rule];
    r.step(rule, number, rate);
    const Doubles got = values(r.w);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double want = 0;
      ASSERT_TRUE(fields >> want) << line;
      EXPECT_NEAR(got[i], want, 5e-7) << rule << " step " << number << " weight " << i;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 15);
}

}  // namespace
}  // namespace mt::test
