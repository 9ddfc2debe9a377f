// A checkpoint of any layout is a start for any other: a run that changes its layout every second step takes the samples of
// one that never does, and its losses, within the bounds.

#include <mutex>

#include "train/layout_points.h"

namespace mt {
namespace {

using test::Curve;
using test::Point;
using test::TempDir;

// What every step was made of: the ordinals of the samples, over all ranks.
class Samples {
 public:
  void watch(TrainerHooks& hooks) {
    hooks.on_batches = [this](std::int64_t iteration, const std::vector<HostBatch>& batches) {
      const std::lock_guard lock(mutex_);
      for (const auto& b : batches) by_step_[iteration].insert(b.ordinals.begin(), b.ordinals.end());
    };
  }
  const std::map<std::int64_t, std::set<std::int64_t>>& by_step() const { return by_step_; }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, std::set<std::int64_t>> by_step_;
};

void expect_samples(const Samples& samples, std::int64_t steps, std::int64_t batch) {
  ASSERT_EQ(std::ssize(samples.by_step()), steps);
  for (const auto& [step, ordinals] : samples.by_step()) {
    ASSERT_EQ(std::ssize(ordinals), batch) << "step " << step;
    EXPECT_EQ(*ordinals.begin(), (step - 1) * batch) << "step " << step;
    EXPECT_EQ(*ordinals.rbegin(), step * batch - 1) << "step " << step;
  }
}

void expect_one_run(const std::vector<Point>& layouts, int model) {
  const TempDir dir;
  constexpr std::int64_t kStepsEach = 2;
  const std::int64_t steps = kStepsEach * std::ssize(layouts);
  Samples samples;
  TrainerHooks hooks;
  samples.watch(hooks);
  const auto prepared = [&](Point p) {
    p[test::kModel] = model;
    auto o = test::options_of(dir, p);
    o.train_iters = steps;
    return o;
  };
  const Curve whole = test::run_tiny(prepared({1, 0, 1, 0, 1, 0, 1, 0, 0}), 1);
  Curve parts;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(fmt::format("{} after {}", test::name_of(layouts[i]), i > 0 ? test::name_of(layouts[i - 1]) : "nothing"));
    auto o = prepared(layouts[i]);
    o.save = dir / "run";
    if (i > 0) o.load = dir / "run";
    o.exit_interval = kStepsEach;
    const Curve c = test::run_tiny(o, test::ranks_of(layouts[i]), hooks);
    ASSERT_EQ(std::ssize(c.loss), kStepsEach);
    for (std::size_t s = 0; s < c.loss.size(); ++s) {
      const double want = whole.loss[parts.loss.size()], bound = model >= 2 ? 2e-3 : test::kLossBound;
      EXPECT_LE(std::abs(c.loss[s] - want), bound * want);
      parts.loss.push_back(c.loss[s]);
    }
  }
  expect_samples(samples, steps, 16);
}

// Every value of every choice followed by every other, in f32, and a few layouts by chance in bf16; with MT_TEST_FULL all
// models, and a thousand layouts of each.
TEST(ResumeMatrix, ARunThatChangesItsLayoutIsTheSameRun) {
  const bool full = std::getenv("MT_TEST_FULL") != nullptr;
  const auto legal = [](int most_ranks) {
    return test::points_where([most_ranks](const Point& p) {
      return test::makes_sense(p, most_ranks) && p[test::kModel] == 0 && p[test::kRecompute] == 0;
    });
  };
  if (!full) {
    expect_one_run(test::every_succession(legal(8)), 1);
    expect_one_run(test::sample_of(legal(8), 6), 2);
    return;
  }
  for (int model : {0, 1, 2, 3}) {
    const auto many = test::sample_of(test::pairwise(legal(16)), 1000);
    for (std::size_t i = 0; i < many.size(); i += 10)
      expect_one_run({many.begin() + static_cast<std::ptrdiff_t>(i),
                      many.begin() + static_cast<std::ptrdiff_t>(std::min(i + 10, many.size()))},
                     model);
  }
}

}  // namespace
}  // namespace mt
