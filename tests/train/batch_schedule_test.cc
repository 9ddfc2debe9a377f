// The growing batch, and what is counted through it.

#include "data/batch_schedule.h"

#include <functional>

#include "base/error.h"
#include "registry/event_log.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

// Megatron's old rule, step by step.
int batch_by_rule(std::int64_t consumed, std::int64_t start, std::int64_t increment, std::int64_t samples, int full) {
  if (consumed > samples) return full;
  const double each = static_cast<double>(samples) / (static_cast<double>(full - start) / static_cast<double>(increment));
  return static_cast<int>(start + increment * static_cast<std::int64_t>(static_cast<double>(consumed) / each));
}

TEST(BatchSchedule, GrowsByMegatronsOldRuleAndCountsThroughIt) {
  const struct {
    std::int64_t start, increment, samples;
    int full;
  } cases[] = {{8, 8, 160, 16}, {32, 32, 1000, 256}, {2, 1, 97, 9}, {16, 16, 100000, 128}, {4, 4, 10, 64}};
  for (const auto& c : cases) {
    const auto s = BatchSchedule::ramp_up({c.start, c.increment, c.samples}, c.full);
    std::int64_t consumed = 0;
    for (std::int64_t i = 0; i < 400; ++i) {
      EXPECT_EQ(s.samples_after(i), consumed);
      EXPECT_EQ(s.at(consumed), batch_by_rule(consumed, c.start, c.increment, c.samples, c.full)) << consumed;
      EXPECT_EQ(s.iterations_within(consumed), i);
      EXPECT_EQ(s.iterations_within(consumed + s.at(consumed) - 1), i);
      consumed += s.at(consumed);
    }
  }
  EXPECT_EQ(BatchSchedule(16).samples_after(10), 160);
  EXPECT_EQ(BatchSchedule(16).iterations_within(175), 10);
}

TEST(BatchSchedule, OfStepsChangesAtTheFirstSampleBehindItsTokens) {
  const auto steps = BatchSchedule::read_steps({"0:8 100:4", "1.5K:16"}, 16);
  ASSERT_EQ(steps.problem, "");
  const auto s = BatchSchedule::of_steps(steps);
  EXPECT_EQ(s.at(0), 8);
  EXPECT_EQ(s.at(6), 8);   // 96 tokens
  EXPECT_EQ(s.at(7), 4);   // 112
  EXPECT_EQ(s.at(93), 4);  // 1488
  EXPECT_EQ(s.at(94), 16);
  EXPECT_EQ(s.sizes(), (std::vector<int>{8, 4, 16}));
  std::int64_t consumed = 0;
  for (std::int64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(s.samples_after(i), consumed);
    EXPECT_EQ(s.iterations_within(consumed), i);
    consumed += s.at(consumed);
  }
  const auto big = BatchSchedule::of_steps(BatchSchedule::read_steps({"0:1", "3B:2", "2T:3"}, 4096));
  EXPECT_EQ(big.at(3'000'000'000 / 4096), 1);
  EXPECT_EQ(big.at(3'000'000'000 / 4096 + 1), 2);
  EXPECT_EQ(big.at(2'000'000'000'000 / 4096 + 1), 3);
  const std::pair<const char*, const char*> wrong[] = {
      {"", "is empty"}, {"1K:8", "begins at 1000 tokens, not at 0"}, {"0:8 5:9 5:10", "5 tokens do not come behind 5"},
      {"0:8 x:9", "'x:9' is no TOKENS:SAMPLES"}, {"0:0", "'0:0'"}, {"0", "'0'"}, {"0:8 1k:9", "'1k:9'"}, {"0:8 0.5:9", "'0.5:9'"},
      {"0:8 -1:9", "'-1:9'"}, {"0:8 1e30T:9", "'1e30T:9'"}, {"0:99999999999", "'0:99999999999'"}, {"0:8x", "'0:8x'"}};
  for (const auto& [words, told] : wrong)
    EXPECT_NE(BatchSchedule::read_steps({words}, 16).problem.find(told), std::string::npos)
        << words << ": " << BatchSchedule::read_steps({words}, 16).problem;
}

TEST(BatchSchedule, TheLongestRampThatCountsIsExactAndLongerOnesAreRefused) {
  const std::int64_t most = std::int64_t{1} << 53;
  const auto s = BatchSchedule::ramp_up({1, 1, most}, 5);  // four increments, 2^51 samples each
  for (int k = 1; k < 5; ++k) {
    EXPECT_EQ(s.at(k * (most / 4) - 1), k);
    EXPECT_EQ(s.at(k * (most / 4)), k + 1);
  }
  const auto thirds = BatchSchedule::ramp_up({1, 1, most}, 4);
  EXPECT_EQ(thirds.at(most / 3 - 1), 1);
  EXPECT_EQ(thirds.at(most / 3 + 2), 2);
  const auto refused = [](std::int64_t samples, int full, const char* words) {
    const auto text = BatchSchedule::ramp_up_problem({1, 1, samples}, full);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  refused(INT64_MAX, 4, "9223372036854775807 samples are more than 9007199254740992");
  refused(most + 1, 4, "more than 9007199254740992");
  refused(1000, 2147483647, "2147483646 increments are more than 100000");
  EXPECT_EQ(BatchSchedule::ramp_up_problem({1, 1, 1000}, 100'001), "");
}

TEST(BatchSchedule, StepsWhoseSamplesCannotBeCountedAreRefused) {
  const test::TempDir dir;
  const auto accepted = [&](const std::function<void(TrainingOptions&)>& change) {
    auto o = test::tiny_options(dir);
    change(o);
    try {
      complete_options(o, 1);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config);
      EXPECT_NE(std::string(e.what()).find("of global-batch-size 16 are more than"), std::string::npos) << e.what();
      return false;
    }
    return true;
  };
  const std::int64_t most = (std::int64_t{1} << 53) / 16;
  EXPECT_TRUE(accepted([&](auto& o) { o.train_iters = most; }));
  EXPECT_FALSE(accepted([&](auto& o) { o.train_iters = most + 1; }));
  EXPECT_FALSE(accepted([&](auto& o) { o.eval_iters = most + 1; }));
  EXPECT_FALSE(accepted([&](auto& o) { o.lr.decay_iters = 9000000000000000000; }));
  EXPECT_FALSE(accepted([&](auto& o) {
    o.rampup_batch_size = {8, 8, 160};
    o.train_iters = 9000000000000000000;
  }));
}

TrainingOptions ramp_options(const test::TempDir& dir) {
  auto o = test::tiny_options(dir);
  o.rampup_batch_size = {8, 8, 160};
  o.train_iters = 100;
  o.lr.lr = 1;
  o.lr.min_lr = 0.1;
  o.lr.decay_style = "WSD";
  o.lr.wsd_decay_style = "linear";
  o.lr.wsd_decay_iters = 20;
  o.lr.warmup_iters = 10;
  return o;
}

// 100 iterations of 16, from 8 over 160 samples, warm-up of 10 iterations, decay over the last 20.
TEST(BatchSchedule, LengthsInIterationsEndAtTheIterationsThatWereMeant) {
  const test::TempDir dir;
  const auto o = complete_options(ramp_options(dir), 1);
  const LrSchedule lr = lr_schedule_of(o);
  EXPECT_EQ(lr.warmup_samples, 80);
  EXPECT_EQ(lr.decay_samples - lr.wsd_decay_samples, 1120);
  EXPECT_EQ(lr.decay_samples, 1440);
  const auto at = [&](std::int64_t iteration) { return lr.learning_rate(o.batch_schedule.samples_after(iteration)); };
  EXPECT_LT(at(9), 1);
  EXPECT_EQ(at(10), 1);
  EXPECT_EQ(at(80), 1);
  EXPECT_LT(at(81), 1);
  EXPECT_GT(at(99), 0.1 + 1e-9);
  EXPECT_NEAR(at(100), 0.1, 1e-12);
  ASSERT_EQ(o.notices.size(), 1u);
  EXPECT_NE(o.notices[0].find("--train-iters 100 are 1440 samples"), std::string::npos) << o.notices[0];
}

TEST(BatchSchedule, ASampleModeRunHasTheSameLengths) {
  const test::TempDir dir;
  auto o = ramp_options(dir);
  o.train_iters = -1;
  o.train_samples = 1440;
  o.lr.wsd_decay_iters.reset();
  o.lr.warmup_iters = 0;
  o.lr.wsd_decay_samples = 320;
  o.lr.warmup_samples = 80;
  const auto complete = complete_options(o, 1);
  EXPECT_EQ(complete.train_iters, 100);
  auto by_iterations = to_json(lr_schedule_of(complete_options(ramp_options(dir), 1)));
  EXPECT_EQ(to_json(lr_schedule_of(complete)), by_iterations);
  o.train_samples = 1450;
  EXPECT_EQ(complete_options(o, 1).train_iters, 100);
  EXPECT_EQ(complete_options(o, 1).notices.size(), 1u);
}

TEST(BatchSchedule, MixedUnitsAndRampsThatDoNotFitAreRefused) {
  const test::TempDir dir;
  const auto problem = [&](const std::function<void(TrainingOptions&)>& change, int world = 1) {
    auto o = test::tiny_options(dir);
    change(o);
    try {
      complete_options(o, world);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const auto has = [](const std::string& text, const char* want) {
    EXPECT_NE(text.find(want), std::string::npos) << want << " not in " << text;
  };
  has(problem([](auto& o) { o.train_samples = 100; }), "train-iters and train-samples exclude each other");
  has(problem([](auto& o) { o.train_iters = -1; }), "train-iters is not given");
  has(problem([](auto& o) { o.lr.decay_samples = 100; }), "lr-decay-samples with train-iters");
  has(problem([](auto& o) { o.train_iters = -1, o.train_samples = 320, o.lr.warmup_iters = 2; }),
      "lr-warmup-iters with train-samples");
  has(problem([](auto& o) { o.rampup_batch_size = {8, 8}; }), "START INCREMENT SAMPLES");
  has(problem([](auto& o) { o.rampup_batch_size = {8, 3, 100}; }), "no multiple of the increment 3");
  has(problem([](auto& o) { o.rampup_batch_size = {32, 8, 100}; }), "starts at 32, above global-batch-size 16");
  has(problem([](auto& o) { o.rampup_batch_size = {2, 2, 100}; }, 2), "passes 2, not divisible");
}

TEST(BatchSchedule, AGrowingRunResumesBitwiseAndIsLayoutFree) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.rampup_batch_size = {4, 4, 48};
  o.train_iters = 12;
  const auto whole = test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 5;
  test::run_tiny(o, 1);
  o.exit_interval = 0;
  o.load = dir / "parts";
  const auto rest = test::run_tiny(o, 1);
  ASSERT_EQ(rest.loss.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(rest.loss[i], whole.loss[5 + i]);
  o.load = o.save = "";
  o.parallel.tp = 2;
  const auto wide = test::run_tiny(o, 4);
  EXPECT_LE(test::distance(whole, wide).loss, test::kLossBound);
  o.parallel.tp = 1;
  o.parallel.pp = 2;
  const auto deep = test::run_tiny(o, 2);
  EXPECT_EQ(deep.loss, whole.loss);
  for (const auto& [i, step] : read_event_log(o.metrics_file).steps)
    EXPECT_EQ(step["global_batch_size"], batch_by_rule(step["consumed_samples"].get<std::int64_t>() -
                                                           step["global_batch_size"].get<std::int64_t>(),
                                                       4, 4, 48, 16));
}

}  // namespace
}  // namespace mt
