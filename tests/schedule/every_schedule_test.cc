// Every row of the table at every size: pp ≤ 8, micro-batches ≤ 16, chunks ≤ 4.

#include <cctype>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/clock.h"
#include "schedule/passes.h"

namespace mt {
namespace {

// Ask one size of one row. Unequal times, so that no order is right by luck alone.
void check(const ScheduleRow& row, ScheduleSpec spec) {
  const auto what = fmt::format("{} pp {} m {} chunks {} group {}", row.name, spec.pp, spec.num_micro_batches, spec.chunks,
                                spec.group_size);
  if (!problem_of(row, spec).empty()) return;
  spec.durations.forward = 1, spec.durations.backward_input = 1.25, spec.durations.backward_weight = 0.5;
  const Schedule s = row.generate(spec);
  ASSERT_EQ(s.name, row.name);
  ASSERT_EQ(s.num_micro_batches, spec.num_micro_batches) << what;
  ASSERT_EQ(s.pp(), spec.pp);
  ASSERT_EQ(s.chunks(), spec.chunks);
  ASSERT_EQ(faults_of(s), std::vector<std::string>{}) << what;
  bool split = false, merged = false;
  for (const Lane& lane : s.lanes)
    for (const Step& step : lane) {
      split = split || step.act == Act::backward_weight;
      merged = merged || step.act == Act::forward_backward;
    }
  EXPECT_TRUE(row.needs_split_backward || !split) << what;
  EXPECT_TRUE(row.needs_merged || !merged) << what;
  EXPECT_EQ(row.copies, s.copies) << what;
  const auto report = report_of(s, spec.durations);
  EXPECT_NEAR(report.work, 2.75 * spec.num_micro_batches, 1e-9) << what;  // every rank does its share of all
  const Schedule told = insert_communication(s);
  ASSERT_EQ(faults_of(told), std::vector<std::string>{}) << what;
  const Schedule early = overlap_p2p(told, 1);
  ASSERT_EQ(faults_of(early), std::vector<std::string>{}) << what;
  // At no cost of messages they change no time.
  EXPECT_NEAR(report_of(early, spec.durations).finish, report.finish, 1e-9) << what;
}

void check_row(const std::string& name) {
  const ScheduleRow* row = find_schedule(name);
  ASSERT_NE(row, nullptr);
  for (int pp = 1; pp <= 8; ++pp)
    for (int m = 1; m <= 16; ++m)
      for (int chunks = 1; chunks <= 4; ++chunks) {
        check(*row, {.pp = pp, .num_micro_batches = m, .chunks = chunks});
        if (::testing::Test::HasFatalFailure()) return;
      }
}

class EverySchedule : public ::testing::TestWithParam<std::string> {};
TEST_P(EverySchedule, IsSoundAloneWithItsMessagesAndWithReceivesPostedEarly) { check_row(GetParam()); }

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& row : schedule_table()) all.push_back(row.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Table, EverySchedule, ::testing::ValuesIn(names()), [](const auto& param) {
  std::string name;
  for (const char c : param.param)
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  return name;
});

TEST(Interleaved, IsSoundForEveryGroupSizeAndEveryNumberOfMicroBatches) {
  const ScheduleRow* row = find_schedule("interleaved");
  for (int pp = 1; pp <= 8; ++pp)
    for (int m = 1; m <= 16; ++m)
      for (int chunks = 2; chunks <= 4; ++chunks)
        for (int group = 1; group <= m; ++group) {
          const Schedule s =
              row->generate({.pp = pp, .num_micro_batches = m, .chunks = chunks, .group_size = group});
          ASSERT_EQ(faults_of(s), std::vector<std::string>{}) << pp << " " << m << " " << chunks << " " << group;
        }
}

TEST(Interleaved, WalksGroupsThroughTheChunksAsMegatronDoes) {
  // Groups of 3, 2 ranks, 2 chunks, 5 micro-batches: forwards 0 1 2 0 1 2 3 4 3 4, warm-up 2·(2 − 0 − 1) + 1·3 = 5.
  const Schedule s = make_schedule("interleaved", {.pp = 2, .num_micro_batches = 5, .chunks = 2, .group_size = 3});
  std::vector<int> order, chunk;
  int before_backward = 0;
  bool seen = false;
  for (const Step& step : s.lanes[0]) {
    seen = seen || step.act == Act::backward;
    if (step.act != Act::forward) continue;
    order.push_back(step.micro_batch);
    chunk.push_back(step.chunk);
    before_backward += seen ? 0 : 1;
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(chunk, (std::vector<int>{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(before_backward, 5 + 1);
}

TEST(ScheduleTable, NamesAreOnceEachAndSomeRunOnOneStageWithWholeBackwards) {
  std::set<std::string> once;
  int plain = 0;
  for (const auto& row : schedule_table()) {
    EXPECT_TRUE(once.insert(row.name).second) << row.name;
    if (!row.is_plain()) continue;
    ++plain;
    const Schedule s = row.generate({.num_micro_batches = 3});
    for (const Step& step : s.lanes[0])
      EXPECT_TRUE(step.act == Act::forward || step.act == Act::backward) << row.name;
  }
  EXPECT_EQ(plain, 2);
}

TEST(ScheduleTable, WhatCannotBeMadeIsRefusedWithItsReason) {
  const auto refused = [](const std::string& name, ScheduleSpec spec) -> std::string {
    try {
      make_schedule(name, spec);
    } catch (const Error& e) {
      return fmt::format("{}: {}", code_name(e.code()), e.what());
    }
    return "";
  };
  EXPECT_NE(refused("1f1bb", {}).find("usage: there is no schedule '1f1bb' (did you mean 1f1b?"), std::string::npos);
  EXPECT_NE(refused("dualpipe", {.pp = 3, .num_micro_batches = 8}).find("config: schedule dualpipe at 3 ranks"),
            std::string::npos);
  EXPECT_NE(refused("zb-v", {.pp = 2, .num_micro_batches = 4, .chunks = 3}).find("it has 2 chunks a rank, not 3"),
            std::string::npos);
  EXPECT_NE(refused("1f1b", {.pp = 2, .num_micro_batches = 4, .chunks = 2}).find("it has 1 chunk a rank, not 2"),
            std::string::npos);
  EXPECT_NE(refused("gpipe", {.pp = 0}).find("at least one rank"), std::string::npos);
}

TEST(Bounds, AreThoseOfTheSchedulesPapers) {
  const auto peak = [](const char* name, int pp, int m) {
    return report_of(make_schedule(name, {.pp = pp, .num_micro_batches = m}), {}).peak_in_flight;
  };
  EXPECT_EQ(peak("1f1b", 4, 8), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(peak("zb-h1", 4, 8), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(peak("zb-h2", 4, 8), (std::vector<int>{7, 5, 3, 1}));
  EXPECT_EQ(peak("gpipe", 4, 8), (std::vector<int>{8, 8, 8, 8}));
}

TEST(Bounds, SearchedSchedulesStayWithinTheirMemory) {
  for (const char* name : {"zb-1p", "zb-2p", "zb-v"})
    for (const double cap : {1.0, 2.0, 3.5, 6.0})
      for (const double kept : {0.0, 0.4, 1.0}) {
        ScheduleSpec spec{.pp = 4, .num_micro_batches = 12, .memory_cap = cap};
        spec.durations.kept = kept;
        const Schedule s = make_schedule(name, spec);
        EXPECT_EQ(faults_of(s), std::vector<std::string>{});
        for (const double peak : report_of(s, spec.durations).peak_activations) EXPECT_LE(peak, cap + 1e-9) << name;
      }
}

}  // namespace
}  // namespace mt
