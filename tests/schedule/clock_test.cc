// Expected values: a simulation written apart from this code and closed forms of the schedules' papers.

#include <algorithm>

#include <gtest/gtest.h>

#include "schedule/clock.h"
#include "schedule/passes.h"

namespace mt {
namespace {

ScheduleReport report(const std::string& name, int pp, int m, Durations d = {}, int chunks = 0) {
  const auto s = make_schedule(name, {.pp = pp, .num_micro_batches = m, .chunks = chunks, .durations = d});
  return report_of(s, d);
}
int highest(const std::vector<int>& v) { return *std::max_element(v.begin(), v.end()); }

TEST(Clock, OneForwardOneBackwardTakes33And69And45UnitsOfTime) {
  EXPECT_DOUBLE_EQ(report("1f1b", 4, 8).makespan, 33);
  EXPECT_DOUBLE_EQ(report("1f1b", 8, 16).makespan, 69);
  EXPECT_DOUBLE_EQ(report("1f1b", 4, 12).makespan, 45);
}

TEST(Clock, ZeroBubbleH1Takes27And55And39) {
  for (const char* name : {"zb-h1", "zb-1p"}) {
    EXPECT_DOUBLE_EQ(report(name, 4, 8).makespan, 27) << name;
    EXPECT_DOUBLE_EQ(report(name, 8, 16).makespan, 55) << name;
    EXPECT_DOUBLE_EQ(report(name, 4, 12).makespan, 39) << name;
  }
}

TEST(Clock, ZeroBubbleH2HasNoBubbleAtEqualTimesFromTwiceThePipelinesMicroBatches) {
  for (int pp = 1; pp <= 8; ++pp)
    for (int m = 2 * pp; m <= 24; m += 3)
      for (const char* name : {"zb-h2", "zb-2p"}) {
        const auto r = report(name, pp, m);
        EXPECT_NEAR(r.bubble, 0, 1e-12) << name << " " << pp << " " << m;
        EXPECT_GE(r.finish, 3.0 * m + (pp - 1)) << name;  // the last rank starts pp − 1 later
      }
}

TEST(Clock, DualPipeTakes26And66And102WithPeaks5And9And9) {
  struct Row { int pp, m; double span; int peak; };
  for (const Row& w : {Row{4, 8, 26, 5}, Row{8, 20, 66, 9}, Row{8, 32, 102, 9}, Row{8, 16, 54, 9}}) {
    const auto r = report("dualpipe", w.pp, w.m);
    EXPECT_DOUBLE_EQ(r.makespan, w.span);
    EXPECT_DOUBLE_EQ(r.finish, w.span);
    EXPECT_EQ(highest(r.peak_in_flight), w.peak);
  }
  Durations merged;
  merged.forward_backward = 2.4;
  EXPECT_NEAR(report("dualpipe", 8, 20, merged).makespan, 57.6, 1e-9);
  EXPECT_NEAR(report("dualpipe", 4, 8, merged).makespan, 23.6, 1e-9);
}

TEST(Clock, DualPipeVIsDualPipeOfTwiceTheDepthFoldedInHalf) {
  for (int pp = 1; pp <= 4; ++pp)
    for (int m = 2 * pp; m <= 16; ++m)
      EXPECT_NEAR(2 * report("dualpipe-v", pp, m).makespan, report("dualpipe", 2 * pp, 2 * m).makespan, 1e-9) << pp << m;
}

TEST(Clock, BubbleOverIdealIsRanksLessOneOverMicroBatchesAndChunks) {
  for (int pp = 1; pp <= 8; ++pp)
    for (int m = 1; m <= 16; ++m) {
      EXPECT_NEAR(report("1f1b", pp, m).bubble_over_ideal, (pp - 1.0) / m, 1e-12);
      EXPECT_NEAR(report("gpipe", pp, m).bubble_over_ideal, (pp - 1.0) / m, 1e-12);
      if (m % pp != 0) continue;
      for (int v = 1; v <= 4; ++v)
        EXPECT_NEAR(report("interleaved", pp, m, {}, v).bubble_over_ideal, (pp - 1.0) / (m * v), 1e-12) << pp << m << v;
    }
}

TEST(Clock, ZeroBubbleH1sBubbleIsRanksLessOneTimesForwardAndInputLessWeight) {
  Durations d;
  d.forward = 10, d.backward_input = 11, d.backward_weight = 9;
  for (int pp = 2; pp <= 8; ++pp) {
    const auto r = report("zb-h1", pp, 4 * pp, d);
    EXPECT_NEAR(r.makespan - r.work, (pp - 1) * (10 + 11 - 9), 1e-9);
    EXPECT_NEAR(report("zb-h2", pp, 4 * pp, d).makespan - r.work, (pp - 1) * (10 + 11 - 18), 1e-9);
  }
}

double slower(int m, const std::vector<int>& ranks, bool early = false) {
  Durations d;
  d.recompute = 1, d.early_recompute = early;
  const auto plain = make_schedule("1f1b", {.pp = 4, .num_micro_batches = m});
  return report_of(insert_recompute(plain, ranks), d).makespan / report_of(plain, d).makespan - 1;
}

TEST(Clock, RecomputeCosts20And24And33PercentOnTheFirstTheFirstTwoAndAllOfFourRanks) {
  EXPECT_NEAR(slower(12, {0}), 0.200, 5e-4);
  EXPECT_NEAR(slower(12, {0, 1}), 0.244, 5e-4);
  EXPECT_NEAR(slower(12, {0, 1, 2, 3}), 0.333, 5e-4);
  EXPECT_NEAR(slower(16, {0}), 0.228, 5e-4);
  EXPECT_NEAR(slower(8, {0}, true), 0.121, 5e-4);  // begun before the gradient is there
  EXPECT_NEAR(slower(8, {0, 1}, true), 0.152, 5e-4);
  EXPECT_NEAR(slower(8, {0, 1, 2, 3}, true), 0.242, 5e-4);
}

// 1F1B whose first ranks do 2(pp − rank − 1) more forwards before their first backward.
Schedule more_warm_up(int pp, int m, int ranks) {
  auto s = make_schedule("1f1b", {.pp = pp, .num_micro_batches = m});
  for (int r = 0; r < ranks; ++r) {
    const int warm_up = std::min(m, 3 * (pp - r - 1) + 1);
    Lane lane;
    int f = 0;
    while (f < warm_up) lane.push_back({.act = Act::forward, .micro_batch = f++});
    for (int b = 0; b < m; ++b) {
      lane.push_back({.act = Act::backward, .micro_batch = b});
      if (f < m) lane.push_back({.act = Act::forward, .micro_batch = f++});
    }
    s.lanes[static_cast<std::size_t>(r)] = lane;
  }
  s.max_in_flight = peak_in_flight(s);
  return s;
}

TEST(Clock, MoreWarmUpHidesRecomputeDownTo7And16PercentAndHolds10And7Activations) {
  Durations d;
  d.recompute = 1;
  const double plain = report_of(make_schedule("1f1b", {.pp = 4, .num_micro_batches = 12}), d).makespan;
  EXPECT_NEAR(report_of(insert_recompute(more_warm_up(4, 12, 1), {0}), d).makespan / plain - 1, 0.067, 5e-4);
  EXPECT_NEAR(report_of(insert_recompute(more_warm_up(4, 12, 2), {0, 1}), d).makespan / plain - 1, 0.156, 5e-4);
  EXPECT_EQ(report_of(more_warm_up(4, 16, 2), {}).peak_in_flight, (std::vector<int>{10, 7, 2, 1}));
}

TEST(Clock, ZeroBubbleVHasHalfTheBubbleOfZeroBubbleH1WhereTimesDifferAndMessagesTakeTime) {
  Durations d;
  d.forward = 29.7, d.backward_input = 29.4, d.backward_weight = 19.9, d.p2p = 0.5;
  for (int pp : {4, 8, 16}) EXPECT_LT(report("zb-v", pp, 4 * pp, d).bubble, 0.5 * report("zb-h1", pp, 4 * pp, d).bubble) << pp;
}

Durations far_apart(int pp, int sites, double latency, double occupancy) {
  Durations d;
  for (int site = 1; site < sites; ++site) {
    const int x = site * pp / sites - 1;
    d.links.push_back({x, x + 1, latency, occupancy});
    d.links.push_back({x + 1, x, latency, occupancy});
  }
  return d;
}

TEST(Clock, OneForwardOneBackwardCrossesALinkBetweenSitesOnceAMicroBatch) {
  const auto crossings = [](int pp, int m) {
    return report("1f1b", pp, m, far_apart(pp, 2, 1, 0)).finish - report("1f1b", pp, m).finish;
  };
  EXPECT_DOUBLE_EQ(crossings(4, 8), 8);
  EXPECT_DOUBLE_EQ(crossings(4, 16), 16);
  EXPECT_DOUBLE_EQ(crossings(8, 16), 14);
  EXPECT_DOUBLE_EQ(crossings(8, 32), 30);
  EXPECT_DOUBLE_EQ(report("1f1b", 8, 16, far_apart(8, 2, 2, 2)).finish, 125);
  EXPECT_DOUBLE_EQ(report("1f1b", 8, 16, far_apart(8, 4, 2, 2)).finish, 149);
}

TEST(Clock, SearchedSchedulesHideLinksBetweenSitesAsWellAsASearchWrittenApart) {
  // That search also cuts acts in up to four parts, here they stay whole. Activations are kept to the weight gradient.
  const struct { int pp, m, sites; double latency, occupancy, one, two; } cases[] = {
      {8, 16, 2, 2, 2, 72, 59}, {8, 16, 4, 2, 2, 104, 71}, {8, 16, 2, 1, 1, 64, 57}, {8, 16, 2, 0, 2, 64, 57},
      {4, 8, 2, 2, 2, 44, 31},  {4, 8, 2, 1, 1, 36, 29},   {4, 8, 2, 0, 2, 36, 29}};
  for (const auto& c : cases) {
    auto d = far_apart(c.pp, c.sites, c.latency, c.occupancy);
    d.kept = 1;
    EXPECT_LE(report("zb-1p", c.pp, c.m, d).finish, c.one);
    EXPECT_LE(report("zb-2p", c.pp, c.m, d).finish, c.two);
  }
}

TEST(Clock, ZeroBubbleVKeepsTheActivationsOfOneForwardOneBackwardAndHasNoBubbleAtEqualTimes) {
  for (int pp = 2; pp <= 8; ++pp) {
    const auto r = report("zb-v", pp, 3 * pp);
    for (double peak : r.peak_activations) EXPECT_LE(peak, pp + 1e-9);
    EXPECT_NEAR(r.bubble, 0, 1e-12) << pp;
  }
}

}  // namespace
}  // namespace mt
