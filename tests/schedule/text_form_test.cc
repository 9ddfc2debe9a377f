#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"

namespace mt {
namespace {

TEST(ScheduleText, ReadsBackWhatItWrote) {
  for (const auto& row : schedule_table()) {
    const auto s = insert_communication(row.generate({.pp = 4, .num_micro_batches = 9}));
    EXPECT_EQ(read_schedule(write_schedule(s), "x"), s) << row.name;
  }
  Schedule s = make_schedule("1f1b", {.pp = 1, .num_micro_batches = 1});
  s.lanes[0][0].tower = 2;
  s.lanes[0][0].first_segment = 1, s.lanes[0][0].last_segment = 5;
  EXPECT_EQ(read_schedule(write_schedule(s), "x"), s);
}

TEST(ScheduleText, TakesCommentsEmptyLinesAndAnUnstatedBound) {
  const auto s = read_schedule(
      "# by hand\r\nmt-schedule\t1\n\nname\tmine\nnum_micro_batches\t1\nlane\t0\t0\nforward\t0\t0\n# then\nbackward\t0\t0\n",
      "x");
  EXPECT_EQ(s.name, "mine");
  EXPECT_EQ(s.max_in_flight, std::vector<int>{1});
  EXPECT_TRUE(faults_of(s).empty());
}

TEST(ScheduleText, MistakesAreToldWithTheirLine) {
  const auto said = [](const std::string& text) -> std::string {
    try {
      read_schedule(text, "f.tsv");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt);
      return e.what();
    }
    return "nothing";
  };
  const std::string head = "mt-schedule\t1\nnum_micro_batches\t2\nlane\t0\t0\n";
  const struct { std::string text, words; } cases[] = {
      {"", "the file is empty"},
      {"hello\n", "this is no schedule: f.tsv:1"},
      {"mt-schedule\t2\n", "version 2 of the format is unknown: f.tsv:1"},
      {"mt-schedule\t1\nnum_micro_batches\t2\n", "there is no lane"},
      {"mt-schedule\t1\nlane\t0\t0\nforward\t0\t0\n", "num_micro_batches is missing"},
      {"mt-schedule\t1\nnum_micro_batches\tmany\n", "num_micro_batches is 'many': f.tsv:2"},
      {"mt-schedule\t1\nnum_micro_batches\t99999999999\n", "a number from 1 to"},
      {head + "forwards\t0\t0\n", "'forwards' is no act and no key: f.tsv:4"},
      {head + "forward\t0\n", "1 fields after 'forward'"},
      {head + "forward\t0\t-1\n", "micro-batch is '-1'"},
      {head + "forward\t0\t0\tspeed=9\n", "'speed=9' is unknown"},
      {head + "forward\t0\t0\tsegments=3\n", "segments is '3'"},
      {head + "forward\t0\t0\tsegments=5-3\n", "segments 5-3 end before they begin: f.tsv:4"},
      {head + "forward\t0\t0\tsegments=0-3\tsegments=0-3\n", "segments= is there twice"},
      {head + "forward\t0\t0\tpeer=1\tchannel=0\n", "peer= and channel= belong to sends and receives"},
      {head + "lane\t1\t1\t2\tmore\n", "'more' is a field too many: f.tsv:4"},
      {"mt-schedule\t1\nname\ta\tb\n", "'b' is a field too many: f.tsv:2"},
      {"mt-schedule\t1\n2\n", "0 fields after '2'"},
      {"mt-schedule\t1\t2\n", "'2' is a field too many: f.tsv:1"},
      {head + "send_activation\t0\t0\n", "a send_activation without peer and channel"},
      {head + "forward_backward\t0\t0\n", "backward= belongs to forward_backward"},
      {head + "lane\t2\t1\n", "lane of rank 2"},
      {head + "lane\t1\t1,2\n", "2 stages"},
      {"mt-schedule\t1\nforward\t0\t0\n", "a step before the first lane"},
  };
  for (const auto& c : cases) EXPECT_NE(said(c.text).find(c.words), std::string::npos) << said(c.text) << " / " << c.words;
}

}  // namespace
}  // namespace mt
