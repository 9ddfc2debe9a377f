// Planted mistakes: each rule of faults_of finds its own.

#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/passes.h"
#include "schedule/schedule.h"

namespace mt {
namespace {

struct Faults : ::testing::Test {
  Schedule s = make_schedule("1f1b", {.pp = 3, .num_micro_batches = 4});
  Schedule told = insert_communication(s);
  Lane& lane(Schedule& schedule, int r) { return schedule.lanes[static_cast<std::size_t>(r)]; }
  Step& find(Schedule& schedule, int r, Act act, int m) {
    for (Step& step : lane(schedule, r))
      if (step.act == act && step.micro_batch == m) return step;
    ADD_FAILURE() << "no such step";
    return lane(schedule, r)[0];
  }
  void erase(Schedule& schedule, int r, Act act, int m) {
    auto& l = lane(schedule, r);
    l.erase(l.begin() + (&find(schedule, r, act, m) - l.data()));
  }
  static void expect(const Schedule& schedule, const std::string& words) {
    const auto faults = faults_of(schedule);
    std::string all;
    for (const auto& f : faults) all += f + "\n";
    EXPECT_NE(all.find(words), std::string::npos) << "wanted: " << words << "\nfound:\n" << all;
  }
};

TEST_F(Faults, NothingIsWrongWithTheSchedulesThatAreThenBroken) {
  EXPECT_TRUE(faults_of(s).empty());
  EXPECT_TRUE(faults_of(told).empty());
}

TEST_F(Faults, AMissingOrDoubledStepIsFound) {
  erase(s, 1, Act::backward, 3);
  expect(s, "rank 1: chunk 0 micro-batch 3 is not finished");
  s = make_schedule("1f1b", {.pp = 3, .num_micro_batches = 4});
  lane(s, 2).push_back({.act = Act::forward, .micro_batch = 1});
  expect(s, "rank 2: forward of chunk 0 micro-batch 1: forward twice");
  lane(s, 2).back() = {.act = Act::backward, .micro_batch = 3};
  expect(s, "backward twice");
  lane(s, 2).back() = {.act = Act::backward_weight, .micro_batch = 3};
  expect(s, "weight gradient twice");
}

TEST_F(Faults, BackwardBeforeForwardAndWeightBeforeInputAreFound) {
  std::swap(lane(s, 2)[0], lane(s, 2)[1]);
  expect(s, "rank 2: backward of chunk 0 micro-batch 0: backward before forward");
  auto h1 = make_schedule("zb-h1", {.pp = 1, .num_micro_batches = 2});
  std::swap(find(h1, 0, Act::backward_input, 0), find(h1, 0, Act::backward_weight, 0));
  expect(h1, "weight gradient before input gradient");
}

TEST_F(Faults, WeightGradientsOutOfOrderAreFound) {
  auto gpipe = make_schedule("gpipe", {.pp = 1, .num_micro_batches = 3});
  std::swap(lane(gpipe, 0)[3], lane(gpipe, 0)[4]);
  expect(gpipe, "weight gradient after that of micro-batch 1");
}

TEST_F(Faults, MoreInFlightThanTheBoundIsFound) {
  s.max_in_flight[0] = 2;
  expect(s, "rank 0: forward of chunk 0 micro-batch 2: 3 in flight, bound 2");
}

TEST_F(Faults, ADeadlockBetweenRanksIsFound) {
  // Rank 0 wants the gradient of micro-batch 0 before it does its forwards 1 and 2; rank 1 wants those first.
  auto gpipe = make_schedule("gpipe", {.pp = 2, .num_micro_batches = 2});
  auto& first = lane(gpipe, 0);
  first = {first[0], first[2], first[1], first[3]};
  expect(gpipe, "rank 0: backward of chunk 0 micro-batch 0 waits for ever");
}

TEST_F(Faults, AStageHeldTwiceOrByNobodyIsFound) {
  s.stage_of[1][0] = 0;
  expect(s, "stage 0 is held twice");
  s.stage_of[1][0] = 7;
  expect(s, "chunk 0 is stage 7, of 3");
  s.stage_of.pop_back();
  expect(s, "differ in length");
}

TEST_F(Faults, NumbersOutOfRangeAreFound) {
  lane(s, 0)[0].micro_batch = 4;
  expect(s, "there are 1 chunks and 4 micro-batches");
  find(told, 0, Act::send_activation, 0).peer = 3;
  expect(told, "peer 3 of 3 ranks");
}

TEST_F(Faults, FarTooFewStepsAreFoundBeforeMemoryIsSpentOnThem) {
  s.num_micro_batches = 1 << 20;
  expect(s, "24 steps cannot be 1048576 micro-batches through 3 stages");
}

TEST_F(Faults, TheOtherCopysMicroBatchIsFound) {
  auto dual = make_schedule("dualpipe", {.pp = 2, .num_micro_batches = 4});
  find(dual, 0, Act::forward, 0).chunk = 1;
  expect(dual, "belongs to the other copy");
}

TEST_F(Faults, AMissingReceiveOrSendIsFound) {
  erase(told, 1, Act::recv_activation, 2);
  expect(told, "rank 1: forward of chunk 0 micro-batch 2: no receive is posted for what it reads");
  expect(told, "channel 0 from rank 0 to 1: 4 sends, 3 receives");
  told = insert_communication(s);
  erase(told, 2, Act::send_gradient, 1);
  expect(told, "channel 3 from rank 2 to 1: message 1 is the gradient of stage 2 micro-batch 2, received as the gradient "
               "of stage 2 micro-batch 1");
  expect(told, "15 messages are sent, 16 are needed");
}

TEST_F(Faults, ReceivesInAnotherOrderThanTheSendsAreFound) {
  std::swap(find(told, 1, Act::recv_activation, 1), find(told, 1, Act::recv_activation, 2));
  expect(told, "message 1 is the activation of stage 0 micro-batch 1, received as the activation of stage 0 micro-batch 2");
}

TEST_F(Faults, ASendBeforeItsActOrToTheWrongRankIsFound) {
  auto& l = lane(told, 0);
  std::swap(l[0], l[1]);
  expect(told, "rank 0: send_activation of chunk 0 micro-batch 0: sent before it is made");
  std::swap(l[0], l[1]);
  l[1].peer = 2;
  expect(told, "rank 2 does not read it");
}

TEST_F(Faults, ARecomputeAfterItsBackwardIsFound) {
  auto again = insert_recompute(s, {1});
  EXPECT_TRUE(faults_of(again).empty());
  std::swap(find(again, 1, Act::recompute, 0), find(again, 1, Act::backward, 0));
  expect(again, "not between forward and backward");
}

}  // namespace
}  // namespace mt
