// Which micro-batches share memory, in lanes small enough to count by hand.

#include "plan/lane_use.h"

#include <gtest/gtest.h>

#include "schedule/passes.h"

namespace mt {
namespace {

TEST(PlaceTable, GivesBackPlacesAndPrefersTheOneOfTheSameChunk) {
  PlaceTable t;
  EXPECT_EQ(t.take(0, 0), 0);
  EXPECT_EQ(t.take(1, 0), 1);
  EXPECT_EQ(t.find(1, 0), 1);
  EXPECT_EQ(t.find(1, 1), -1);
  t.give_back(0), t.give_back(1);
  EXPECT_EQ(t.take(1, 5), 1);
  EXPECT_EQ(t.take(1, 6), 0) << "rather than a new one";
  EXPECT_EQ(t.take(1, 7), 2);
  EXPECT_EQ(t.chunks(0), (std::set<int>{0, 1}));
  EXPECT_EQ(t.chunks(1), (std::set<int>{1}));
}

TEST(LaneUse, OfOneForwardOneBackwardIsAsDeepAsThePipelineThatFollows) {
  const Schedule s = insert_communication(one_f_one_b(4, 8));
  for (int r = 0; r < 4; ++r) {
    const LaneUse use = lane_use(s.lanes[static_cast<std::size_t>(r)], {false});
    EXPECT_EQ(use.slots.size(), 4 - r);
    EXPECT_EQ(use.kept.size(), 0);
    EXPECT_EQ(use.recompute.size(), 0);
    EXPECT_EQ(use.gradients_sent, r > 0 ? 8 : 0);
    EXPECT_TRUE(use.whole_backward);
    EXPECT_FALSE(use.split_backward);
  }
  EXPECT_EQ(lane_use(insert_communication(gpipe(2, 5)).lanes[1], {false}).slots.size(), 5);
}

TEST(LaneUse, OfSplitBackwardsHoldsSlotsUntilTheirWeightGradient) {
  const auto step = [](Act act, int m) {
    Step s;
    s.act = act;
    s.micro_batch = m;
    return s;
  };
  using A = Act;
  const Lane lane{step(A::forward, 0),        step(A::backward_input, 0),  step(A::forward, 1),
                  step(A::backward_input, 1), step(A::backward_weight, 0), step(A::forward, 2),
                  step(A::recompute, 2),      step(A::backward_input, 2),  step(A::backward_weight, 1),
                  step(A::backward_weight, 2)};
  for (const bool again : {false, true}) {
    const LaneUse use = lane_use(lane, {again});
    EXPECT_EQ(use.slots.size(), 2);
    EXPECT_EQ(use.kept.size(), 2);
    EXPECT_EQ(use.recompute.size(), again ? 1 : 0);
  }
  EXPECT_EQ(last_steps(lane),
            (std::vector<bool>{false, false, false, false, true, false, false, false, true, true}));
  EXPECT_TRUE(splits_backward(lane, 6));
  EXPECT_FALSE(splits_backward(one_f_one_b(1, 1).lanes[0], 0));
}

}  // namespace
}  // namespace mt
