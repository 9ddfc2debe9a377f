#include <gtest/gtest.h>

#include "schedule/clock.h"
#include "schedule/passes.h"

namespace mt {
namespace {

TEST(DeferWeightGradients, TurnsOneForwardOneBackwardIntoZeroBubbleH1) {
  const auto s = defer_weight_gradients(make_schedule("1f1b", {.pp = 4, .num_micro_batches = 8}), {0, 1, 2, 3});
  EXPECT_TRUE(faults_of(s).empty());
  EXPECT_EQ(s.lanes, make_schedule("zb-h1", {.pp = 4, .num_micro_batches = 8}).lanes);
  EXPECT_DOUBLE_EQ(report_of(s, {}).makespan, 27);
}

TEST(DeferWeightGradients, ByMoreThanThereAreMicroBatchesLeavesThemAllToTheEnd) {
  const auto s = defer_weight_gradients(make_schedule("gpipe", {.pp = 1, .num_micro_batches = 3}), {99});
  EXPECT_TRUE(faults_of(s).empty());
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_EQ(s.lanes[0][i].act, i < 3 ? Act::forward : i < 6 ? Act::backward_input : Act::backward_weight);
}

TEST(SplitMerged, LeavesASoundScheduleOfWholeForwardsAndBackwards) {
  for (int pp : {1, 2, 3, 4})
    for (int m = 1; m <= 12; ++m) {
      const auto s = split_merged(make_schedule("dualpipe-v", {.pp = pp, .num_micro_batches = m}));
      for (const Lane& lane : s.lanes)
        for (const Step& step : lane) EXPECT_NE(step.act, Act::forward_backward);
      EXPECT_TRUE(faults_of(s).empty()) << pp << " " << m;
      EXPECT_TRUE(faults_of(insert_communication(s)).empty()) << pp << " " << m;
    }
}

TEST(InsertCommunication, UsesFourChannelsByKindAndDirection) {
  EXPECT_EQ(channel_of(false, 0, 1, 4), 0);
  EXPECT_EQ(channel_of(false, 1, 0, 4), 1);
  EXPECT_EQ(channel_of(true, 0, 1, 4), 2);
  EXPECT_EQ(channel_of(true, 1, 0, 4), 3);
  EXPECT_EQ(channel_of(false, 3, 0, 4), 0);  // the ring's last link goes on to the next chunk
}

TEST(InsertCommunication, PostsReceivesInThePeersOrderWhereThisRankReadsInAnother) {
  // Rank 0 sends micro-batch 0 first; rank 1 reads 1 first.
  Schedule s{.name = "crossed", .num_micro_batches = 2};
  const auto f = [](int m) { return Step{.act = Act::forward, .micro_batch = m}; };
  const auto b = [](int m) { return Step{.act = Act::backward, .micro_batch = m}; };
  s.lanes = {{f(0), f(1), b(0), b(1)}, {f(1), f(0), b(0), b(1)}};
  s.stage_of = {{0}, {1}};
  s.max_in_flight = {2, 2};
  ASSERT_TRUE(faults_of(s).empty());
  const auto told = insert_communication(s);
  EXPECT_TRUE(faults_of(told).empty());
  EXPECT_EQ(told.lanes[1][0].act, Act::recv_activation);
  EXPECT_EQ(told.lanes[1][0].micro_batch, 0);
  EXPECT_EQ(told.lanes[1][1].act, Act::recv_activation);
  EXPECT_EQ(told.lanes[1][1].micro_batch, 1);
  EXPECT_EQ(told.lanes[1][2], f(1));
}

TEST(InsertCommunication, StagesOnOneRankHandOverWithoutAMessage) {
  const auto told = insert_communication(make_schedule("zb-v", {.pp = 1, .num_micro_batches = 2}));
  for (const Step& step : told.lanes[0]) EXPECT_FALSE(is_send(step.act) || is_recv(step.act));
}

TEST(OverlapP2p, ReceivesPostedEarlyHideTheLatencyThatLateOnesPay) {
  Durations d;
  d.p2p = 0.2;
  const auto plain = make_schedule("gpipe", {.pp = 2, .num_micro_batches = 8});
  const auto late = insert_communication(plain);
  const double best = report_of(plain, d).finish, paid = report_of(late, d).finish;
  EXPECT_NEAR(best, 3 * 9 + 2 * 0.2, 1e-9);          // filled once and drained once
  // Each forward of rank 1 takes 1.2, each backward of rank 0 2.2; those begin with the first gradient, at 12.8.
  EXPECT_NEAR(paid, (1 + 8 * 1.2 + 2 + 0.2) + 2 + 7 * 2.2, 1e-9);
  EXPECT_NEAR(report_of(overlap_p2p(late, 1), d).finish, best, 1e-9);
}

TEST(OverlapP2p, ByNoActsKeepsTheTimes) {
  Durations d;
  d.p2p = 0.3;
  const auto told = insert_communication(make_schedule("interleaved", {.pp = 4, .num_micro_batches = 8}));
  EXPECT_DOUBLE_EQ(report_of(overlap_p2p(told, 0), d).finish, report_of(told, d).finish);
}

TEST(FirstMicroBatches, LeavesASoundScheduleOfTheOthers) {
  for (int m = 1; m <= 16; ++m) {
    const auto s = first_micro_batches(make_schedule("dualpipe", {.pp = 4, .num_micro_batches = 16}), m);
    EXPECT_TRUE(faults_of(s).empty()) << m;
    EXPECT_EQ(s.num_micro_batches, m);
  }
}

}  // namespace
}  // namespace mt
