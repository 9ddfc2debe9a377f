// The whole matrix of layouts: a set of runs in which every legal pair of choices meets; with MT_TEST_FULL all legal ones,
// with MT_TEST_SAMPLE=N so many of them by chance.
//
// Each run is held to the bounds against one rank, and bit for bit to the run of its class (same model, tp, sp, dp, ZeRO
// stage and instances) without pipeline and recompute.

#include "base/error.h"
#include "ckpt/store.h"
#include "train/layout_points.h"
#include "train/same_checkpoint.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::Curve;
using test::Point;
using test::TempDir;

std::vector<Point> wanted_points() {
  const auto legal = [](int most_ranks) {
    return test::points_where([most_ranks](const Point& p) { return test::makes_sense(p, most_ranks); });
  };
  if (const char* n = std::getenv("MT_TEST_SAMPLE")) return test::sample_of(legal(16), static_cast<std::size_t>(std::atoi(n)));
  return std::getenv("MT_TEST_FULL") != nullptr ? legal(16) : test::pairwise(legal(8));
}

// Runs that others are compared with, each once; their last checkpoints stay.
class Runs {
 public:
  struct Run {
    Curve curve;
    fs::path checkpoint;
  };
  const Run& of(const Point& p) {
    auto [it, fresh] = known_.try_emplace(p);
    if (fresh) it->second = run(p, fmt::format("kept{}", known_.size()));
    return it->second;
  }
  // One that is not kept.
  Run once(const Point& p) {
    fs::remove_all(dir_ / "once");
    return run(p, "once");
  }

 private:
  Run run(const Point& p, const std::string& name) {
    auto o = test::options_of(dir_, p);
    o.save = dir_ / name;
    return {test::run_tiny(o, test::ranks_of(p)), dir_ / name / iteration_name(o.train_iters)};
  }
  TempDir dir_;
  std::map<Point, Run> known_;
};

TEST(Matrix, EveryPairOfChoicesGivesTheSameTraining) {
  Runs runs;
  for (const auto& p : wanted_points()) {
    SCOPED_TRACE(test::name_of(p));
    const Curve& one = runs.of({1, 0, 1, 0, 1, 0, 1, 0, p[test::kModel]}).curve;
    ASSERT_GE(one.loss.size(), 4u);
    EXPECT_LE(one.loss.back(), (one.loss.size() < 20 ? 1 : 0.9) * one.loss.front());
    const auto here = runs.once(p);
    const auto d = test::distance(one, here.curve);
    EXPECT_LE(d.loss, test::is_bf16(p) ? 2e-3 : test::kLossBound);
    EXPECT_LE(d.grad_norm, test::is_bf16(p) ? 1 : test::kNormBound);
    Point flat = p;
    flat[test::kPp] = 1;
    flat[test::kSchedule] = flat[test::kRecompute] = 0;
    const auto& same = runs.of(flat);
    EXPECT_EQ(same.curve.loss, here.curve.loss);
    EXPECT_EQ(same.curve.grad_norm, here.curve.grad_norm);
    test::expect_same(same.checkpoint, here.checkpoint);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// What a schedule has against a number of chunks; told when nothing else is wrong.
std::string schedule_reason(const Point& p, int vpp) {
  if (vpp == 2 && !test::has_two_chunks(p)) return "it has 1 chunk a rank, not 2";
  const std::string name = test::kSchedules[p[test::kSchedule]];
  const bool makes_layout = p[test::kPp] > 1 && (name == "zb-v" || name == "dualpipe-v");
  if (vpp == 1 && test::has_two_chunks(p) && !makes_layout) return "has 2 chunks a rank, the layout 1";
  return "";
}

// Every point of the whole product, at 1 and 2 chunks a rank, is taken, or refused with each of its reasons.
TEST(Matrix, WhatIsIllegalIsRefusedWithItsReasonsAndNothingElseIs) {
  const TempDir dir;
  int legal = 0, illegal = 0;
  const auto try_one = [&](const Point& p, int vpp) {
    auto why = test::reasons_against(p, vpp);
    if (why.empty())
      if (const auto more = schedule_reason(p, vpp); !more.empty()) why.push_back(more);
    auto o = test::options_of(dir, p);
    o.parallel.vpp = vpp;
    if (o.recompute.num_layers) o.recompute.num_layers = 1;  // fits any stage
    const auto name = fmt::format("{} at vpp {}", test::name_of(p), vpp);
    try {
      (void)complete_options(o, test::ranks_of(p));
      EXPECT_TRUE(why.empty()) << name << " is taken, though " << why[0];
      ++legal;
    } catch (const Error& e) {
      ++illegal;
      EXPECT_EQ(e.code(), Code::config);
      EXPECT_FALSE(why.empty()) << name << " is refused: " << e.what();
      for (const auto& reason : why)
        EXPECT_NE(std::string(e.what()).find(reason), std::string::npos)
            << name << " is refused without a word of '" << reason << "': " << e.what();
    }
  };
  // Of models and recompute nothing is refused here; they would only multiply the count.
  for (const Point& p : test::points_where([](const Point& x) { return x[test::kModel] == x[test::kRecompute] % 2; }))
    for (int vpp : {1, 2}) {
      try_one(p, vpp);
      if (testing::Test::HasFailure()) return;
    }
  EXPECT_GT(legal, 1000);
  EXPECT_GT(illegal, 1000);
}

}  // namespace
}  // namespace mt
