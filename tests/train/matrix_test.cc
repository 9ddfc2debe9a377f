// The whole matrix of layouts: a set of runs in which every legal pair of choices meets, all legal ones in the full run.
//
// Each run is held to the bounds against one rank, and bit for bit to the run of its class (same tp, sp, dp, ZeRO stage)
// without pipeline and recompute.

#include <array>
#include <set>

#include "base/error.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;

constexpr const char* kSchedules[] = {"1f1b",  "gpipe", "zb-h1", "zb-h2",    "zb-1p",
                                      "zb-2p", "interleaved", "zb-v",  "dualpipe-v"};
constexpr int kFirstOfTwoChunks = 6;  // in kSchedules
enum Choice : std::size_t { kPp, kSchedule, kTp, kSp, kDp, kZero, kRecompute, kAxes };
using Point = std::array<int, kAxes>;

bool makes_sense(const Point& p, int most_ranks) {
  if (p[kPp] * p[kTp] * p[kDp] > most_ranks) return false;
  if (p[kPp] == 1 && p[kSchedule] != 0) return false;
  return p[kSp] == 0 || p[kTp] > 1;
}

std::vector<Point> points(int most_ranks) {
  std::vector<Point> out;
  for (int pp : {1, 2, 4})
    for (int schedule = 0; schedule < static_cast<int>(std::size(kSchedules)); ++schedule)
      for (int tp : {1, 2})
        for (int sp : {0, 1})
          for (int dp : {1, 2, 4})
            for (int zero : {0, 1, 2, 3})
              for (int recompute : {0, 1, 2}) {
                const Point p{pp, schedule, tp, sp, dp, zero, recompute};
                if (makes_sense(p, most_ranks)) out.push_back(p);
              }
  return out;
}

std::string name_of(const Point& p) {
  constexpr const char* recompute[] = {"", ", selective recompute", ", full recompute"};
  return fmt::format("pp {} {}, tp {}{}, dp {}, ZeRO {}{}", p[kPp], kSchedules[p[kSchedule]], p[kTp],
                     p[kSp] ? " sp" : "", p[kDp], p[kZero], recompute[p[kRecompute]]);
}

TrainingOptions options_of(const test::TempDir& dir, const Point& p) {
  auto o = test::tiny_options(dir);
  o.model.num_layers = 8;
  o.batch = {16, 1, 16};
  o.parallel.pp = p[kPp];
  o.parallel.vpp = p[kSchedule] >= kFirstOfTwoChunks ? 2 : 1;
  o.schedule = kSchedules[p[kSchedule]];
  o.parallel.tp = p[kTp];
  o.parallel.sequence_parallel = p[kSp] != 0;
  const char* strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  o.sharding_strategy = strategies[p[kZero]];
  o.use_megatron_fsdp = p[kZero] == 3;
  if (p[kRecompute] > 0) o.recompute.granularity = p[kRecompute] == 1 ? "selective" : "full";
  if (p[kRecompute] == 2) o.recompute.method = "uniform", o.recompute.num_layers = std::min(2, 8 / (p[kPp] * o.parallel.vpp));
  return o;
}

int ranks_of(const Point& p) { return p[kPp] * p[kTp] * p[kDp]; }

using Pair = std::array<int, 4>;  // axis, value, axis, value
std::set<Pair> pairs_of(const Point& p) {
  std::set<Pair> out;
  for (int a = 0; a < static_cast<int>(kAxes); ++a)
    for (int b = a + 1; b < static_cast<int>(kAxes); ++b)
      out.insert({a, p[static_cast<std::size_t>(a)], b, p[static_cast<std::size_t>(b)]});
  return out;
}

// Greedily, the point with the most pairs not yet met, fewer ranks first.
std::vector<Point> pairwise(const std::vector<Point>& all) {
  std::set<Pair> missing;
  for (const auto& p : all) missing.merge(pairs_of(p));
  std::vector<Point> out;
  while (!missing.empty()) {
    const Point* best = nullptr;
    std::ptrdiff_t most = 0;
    for (const auto& p : all) {
      const auto pairs = pairs_of(p);
      const auto n = std::count_if(pairs.begin(), pairs.end(), [&](const Pair& x) { return missing.count(x) > 0; });
      if (n > most || (n == most && best != nullptr && ranks_of(p) < ranks_of(*best))) best = &p, most = n;
    }
    for (const auto& pair : pairs_of(*best)) missing.erase(pair);
    out.push_back(*best);
  }
  return out;
}

TEST(Matrix, EveryPairOfChoicesGivesTheSameTraining) {
  const bool full = std::getenv("MT_TEST_FULL") != nullptr;
  const auto all = points(full ? 16 : 8);
  std::map<Point, Curve> classes;
  const auto run = [&](const Point& p) {
    const test::TempDir dir;
    return test::run_tiny(options_of(dir, p), ranks_of(p));
  };
  const Curve one = run({1, 0, 1, 0, 1, 0, 0});
  ASSERT_EQ(one.loss.size(), 20u);
  EXPECT_LE(one.loss.back(), 0.9 * one.loss.front());
  for (const auto& p : full ? all : pairwise(all)) {
    SCOPED_TRACE(name_of(p));
    const Curve curve = run(p);
    const auto d = test::distance(one, curve);
    EXPECT_LE(d.loss, test::kLossBound);
    EXPECT_LE(d.grad_norm, test::kNormBound);
    const Point flat{1, 0, p[kTp], p[kSp], p[kDp], p[kZero], 0};
    if (classes.count(flat) == 0) classes[flat] = run(flat);
    EXPECT_EQ(classes[flat].loss, curve.loss);
    EXPECT_EQ(classes[flat].grad_norm, curve.grad_norm);
  }
}

}  // namespace
}  // namespace mt
