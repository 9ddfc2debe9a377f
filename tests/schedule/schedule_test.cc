// The plain schedules at every small size against a simulation of the pipeline, and planted faults that must be seen.

#include "schedule/schedule.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

namespace mt {
namespace {

Schedule made(const std::string& name, int pp, int m) {
  return make_schedule(name, {.pp = pp, .num_micro_batches = m});
}
std::vector<std::string> faults(Schedule s, int m) {
  s.num_micro_batches = m;
  return faults_of(s);
}

// Ticks until all lanes are done when a forward takes 1 and a backward 2 and a step waits for its neighbour's; −1 when
// lanes wait for each other for ever. Counts forwards in flight on the way.
int makespan(const Schedule& s, int m, std::vector<int>& most_in_flight) {
  const int pp = static_cast<int>(s.lanes.size());
  const auto table = [&] { return std::vector<std::vector<int>>(static_cast<std::size_t>(pp), std::vector<int>(static_cast<std::size_t>(m), -1)); };
  auto forward_end = table(), backward_end = table();
  std::vector<std::size_t> next(static_cast<std::size_t>(pp));
  std::vector<int> free_at(static_cast<std::size_t>(pp)), in_flight(static_cast<std::size_t>(pp));
  most_in_flight.assign(static_cast<std::size_t>(pp), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < s.lanes.size(); ++r)
      while (next[r] < s.lanes[r].size()) {
        const Step& step = s.lanes[r][next[r]];
        const auto i = static_cast<std::size_t>(step.micro_batch);
        const bool forward = step.act == Act::forward;
        int ready = 0;
        if (forward && r > 0) ready = forward_end[r - 1][i];
        if (!forward) ready = r + 1 < s.lanes.size() ? backward_end[r + 1][i] : forward_end[r][i];
        if (!forward && forward_end[r][i] < 0) ready = -1;
        if (ready < 0) break;
        const int end = std::max(ready, free_at[r]) + (forward ? 1 : 2);
        (forward ? forward_end : backward_end)[r][i] = free_at[r] = end;
        in_flight[r] += forward ? 1 : -1;
        most_in_flight[r] = std::max(most_in_flight[r], in_flight[r]);
        ++next[r];
        moved = true;
      }
  }
  for (std::size_t r = 0; r < s.lanes.size(); ++r)
    if (next[r] < s.lanes[r].size()) return -1;
  return *std::max_element(free_at.begin(), free_at.end());
}

TEST(Schedule, PlainOnesAreSoundAndAsLongAsTheirClosedFormAtEverySmallSize) {
  for (int pp = 1; pp <= 8; ++pp)
    for (int m = 1; m <= 16; ++m)
      for (const char* name : {"1f1b", "gpipe"}) {
        const Schedule s = made(name, pp, m);
        SCOPED_TRACE(std::string(name) + " pp " + std::to_string(pp) + " m " + std::to_string(m));
        ASSERT_EQ(faults(s, m), std::vector<std::string>());
        EXPECT_EQ(s.name, name);
        ASSERT_EQ(static_cast<int>(s.lanes.size()), pp);
        std::vector<int> in_flight;
        ASSERT_EQ(makespan(s, m, in_flight), 3 * (m + pp - 1)) << "bubble (pp − 1)/m";
        for (int r = 0; r < pp; ++r) {
          const auto R = static_cast<std::size_t>(r);
          const int bound = std::string(name) == "gpipe" ? m : std::min(pp - r, m);
          EXPECT_EQ(in_flight[R], bound) << "rank " << r;
          EXPECT_EQ(s.max_in_flight[R], bound);
          EXPECT_EQ(s.stage_of[R], std::vector{r});
          EXPECT_EQ(s.lanes[R].size(), 2u * static_cast<std::size_t>(m));
        }
      }
}

TEST(Schedule, WarmUpOfOneForwardOneBackwardIsMegatrons) {
  const Schedule s = made("1f1b", 4, 6);
  for (int r = 0; r < 4; ++r) {
    const Lane& lane = s.lanes[static_cast<std::size_t>(r)];
    int warm_up = 0;
    while (lane[static_cast<std::size_t>(warm_up)].act == Act::forward) ++warm_up;
    EXPECT_EQ(warm_up - 1, 4 - r - 1) << "and one forward of the steady part";
    EXPECT_EQ(lane.back().act, Act::backward);
    EXPECT_EQ(lane.back().micro_batch, 5);
  }
}

using Plant = std::function<void(Schedule&)>;

TEST(Schedule, PlantedFaultsAreSeen) {
  const auto swap_first = [](Act a, Act b) {
    return [=](Schedule& s) {
      Lane& lane = s.lanes[1];
      const auto find = [&](Act act) {
        return std::find_if(lane.begin(), lane.end(), [&](const Step& x) { return x.act == act; });
      };
      std::iter_swap(find(a), find(b));
    };
  };
  const std::vector<std::pair<const char*, Plant>> plants = {
      {"a forward twice", [](Schedule& s) { s.lanes[0].push_back(s.lanes[0].front()); }},
      {"a backward twice", [](Schedule& s) { s.lanes[0].push_back(s.lanes[0].back()); }},
      {"a forward left out", [](Schedule& s) { s.lanes[1].erase(s.lanes[1].begin()); }},
      {"a backward left out", [](Schedule& s) { s.lanes[1].pop_back(); }},
      {"a backward before its forward", swap_first(Act::forward, Act::backward)},
      {"a step of an unknown micro-batch", [](Schedule& s) { s.lanes[0].push_back({.act = Act::forward, .micro_batch = 4}); }},
      {"a step of an unknown chunk", [](Schedule& s) { s.lanes[0][0].chunk = 1; }},
      {"weight gradients out of order", [](Schedule& s) { std::swap(s.lanes[1][6], s.lanes[1][7]); }},
      {"more in flight than said", [](Schedule& s) { s.max_in_flight[0] = 1; }},
      {"a lane too few", [](Schedule& s) { s.lanes.pop_back(); }},
      {"a weight gradient before its input gradient",
       [](Schedule& s) {
         Step& last = s.lanes[0].back();
         last.act = Act::backward_weight;
         Step input = last;
         input.act = Act::backward_input;
         s.lanes[0].push_back(input);
       }},
      {"a weight gradient left out", [](Schedule& s) { s.lanes[0].back().act = Act::backward_input; }},
  };
  for (const auto& [what, plant] : plants) {
    Schedule s = made("gpipe", 2, 4);
    ASSERT_TRUE(faults(s, 4).empty());
    plant(s);
    EXPECT_FALSE(faults(s, 4).empty()) << what;
  }
  EXPECT_FALSE(faults(made("1f1b", 2, 4), 5).empty()) << "one micro-batch too few";
}

TEST(Schedule, ABackwardInTwoHalvesIsSound) {
  Schedule s = made("1f1b", 2, 3);
  for (Lane& lane : s.lanes) {
    Lane split;
    for (Step step : lane) {
      if (step.act == Act::backward) {
        step.act = Act::backward_input;
        split.push_back(step);
        step.act = Act::backward_weight;
      }
      split.push_back(step);
    }
    lane = split;
  }
  EXPECT_EQ(faults(s, 3), std::vector<std::string>());
}

TEST(Schedule, ActsHaveNames) {
  EXPECT_STREQ(act_name(Act::forward), "forward");
  EXPECT_STREQ(act_name(Act::backward_weight), "backward_weight");
  EXPECT_STREQ(act_name(Act::recv_gradient), "recv_gradient");
}

}  // namespace
}  // namespace mt
