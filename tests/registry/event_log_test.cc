#include "registry/event_log.h"

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

Json step(std::int64_t iteration, double loss) {
  return {{"event", "step"}, {"iteration", iteration}, {"loss", loss}};
}

TEST(EventLog, LinesReadBackAndALaterLineReplacesAnEarlierOne) {
  const test::TemporaryDirectory dir;
  EventLog log(dir / "run.jsonl");
  log.append(run_event("mt-train", "0.1.0", {{"lr", "0.001"}}));
  for (int i = 1; i <= 13; ++i) log.append(step(i, 10.0 - i));
  log.append({{"event", "checkpoint"}, {"iteration", 10}, {"path", "x"}, {"bytes", 5}});
  log.append({{"event", "evaluation"}, {"iteration", 10}, {"name", "valid"}, {"loss", 3.0}});
  for (int i = 11; i <= 13; ++i) log.append(step(i, -i));
  log.append(end_event("done", 1.5));
  const auto r = read_event_log(dir / "run.jsonl");
  ASSERT_EQ(r.steps.size(), 13u);
  EXPECT_EQ(r.steps.at(10)["loss"], 0.0);
  EXPECT_EQ(r.steps.at(11)["loss"], -11);
  EXPECT_EQ(r.checkpoints.at(10)["bytes"], 5);
  EXPECT_EQ(r.evaluations.at({10, "valid"})["loss"], 3.0);
  EXPECT_TRUE(r.ended);
  EXPECT_EQ(r.skipped_lines, 0u);
  EXPECT_EQ(r.bytes, fs::file_size(dir / "run.jsonl"));
  EXPECT_EQ(r.runs[0]["options"]["lr"], "0.001");
  EXPECT_TRUE(r.runs[0].contains("host"));
  EXPECT_TRUE(r.steps.at(1).contains("time"));
}

TEST(EventLog, ANewRunMovesAnEarlierRecordAsideWholeAndGetsItsOwnId) {
  const test::TemporaryDirectory dir;
  std::string old;
  {
    EventLog log(dir / "run.jsonl");
    old = log.run_id();
    log.append(run_event("mt-train", "0.1.0", {}));
    old = first_run_id(dir / "run.jsonl");
    log.append(step(1, 2));
  }
  const std::string before = read_file(dir / "run.jsonl");
  fs::path moved;
  EventLog log = EventLog::start_new(dir / "run.jsonl", &moved);
  EXPECT_EQ(moved, dir / ("run-" + old + ".jsonl"));
  EXPECT_EQ(read_file(moved), before);
  EXPECT_NE(log.run_id(), old);
  EXPECT_FALSE(log.resumed());
  EXPECT_TRUE(is_event_log_name(moved));
  EXPECT_FALSE(is_event_log_name("walk.jsonl"));
  // A record that is being written is left where it is.
  log.append({{"event", "run"}, {"tool", "mt-train"}});
  moved.clear();
  EventLog beside = EventLog::start_new(dir / "run.jsonl", &moved);
  EXPECT_TRUE(moved.empty());
  EXPECT_EQ(beside.path(), dir / ("run-" + beside.run_id() + ".jsonl"));
  EXPECT_EQ(first_run_id(dir / "run.jsonl"), log.run_id());
}

TEST(EventLog, AFileOfSomebodyElsesIsNeverAppendedTo) {
  const test::TemporaryDirectory dir;
  for (const char* text : {"# Notes\n", "a,b\n1,2\n", "{\"text\": \"a document\"}\n", "no line end", "[1]\n"}) {
    write_file_atomic(dir / "notes", text);
    for (bool fresh : {false, true}) {
      try {
        fresh ? EventLog::start_new(dir / "notes") : EventLog(dir / "notes");
        FAIL() << "appended to " << text;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::config) << e.what();
      }
    }
    EXPECT_EQ(read_file(dir / "notes"), text);
  }
  write_file_atomic(dir / "empty", "");
  EXPECT_NO_THROW(EventLog(dir / "empty"));
  write_file_atomic(dir / "cut", "{\"event\":\"ru");
  EXPECT_NO_THROW(EventLog(dir / "cut"));
  EXPECT_NO_THROW(EventLog("/dev/null"));
}

TEST(EventLog, AResumedRunKeepsItsIdAndAFreshOneGetsAnother) {
  const test::TemporaryDirectory dir;
  std::string id;
  {
    EventLog log(dir / "run.jsonl");
    EXPECT_FALSE(log.resumed());
    id = log.run_id();
    log.append({{"event", "run"}, {"tool", "mt-train"}});
  }
  EventLog again(dir / "run.jsonl");
  EXPECT_TRUE(again.resumed());
  EXPECT_EQ(again.run_id(), id);
  EXPECT_NE(EventLog(dir / "other.jsonl").run_id(), id);
}

TEST(EventLog, ACutLastLineIsSkippedCountedAndNotJoinedToTheNext) {
  const test::TemporaryDirectory dir;
  {
    EventLog log(dir / "run.jsonl");
    log.append({{"event", "run"}});
    log.append(step(1, 1.0));
  }
  std::ofstream(dir / "run.jsonl", std::ios::app) << R"({"event":"step","itera)";
  EXPECT_EQ(read_event_log(dir / "run.jsonl").skipped_lines, 0u);  // not a complete line yet
  {
    EventLog log(dir / "run.jsonl");
    log.append(step(2, 2.0));
  }
  const auto r = read_event_log(dir / "run.jsonl");
  EXPECT_EQ(r.steps.size(), 2u);
  EXPECT_EQ(r.skipped_lines, 1u);
  EXPECT_FALSE(r.ended);
}

TEST(EventLog, LinesThatAreNotEventsAreCountedNeverTaken) {
  RunRecord r;
  for (const char* line : {"", "[]", "nonsense", "{\"event\":\"other\"}", "{\"event\":\"step\"}", "{\"event\":\"run\"}",
                           "{\"event\":\"step\",\"iteration\":\"3\"}", "{\"event\":7}"})
    r.add(line);
  EXPECT_EQ(r.skipped_lines, 8u);
}

TEST(EventLog, NumbersThatAreNotFiniteBecomeNull) {
  const test::TemporaryDirectory dir;
  EventLog log(dir / "run.jsonl");
  log.append(step(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(read_event_log(dir / "run.jsonl").steps.at(1)["loss"].is_null());
}

TEST(EventLog, ManyThreadsWriteWholeLines) {
  const test::TemporaryDirectory dir;
  EventLog log(dir / "run.jsonl");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      EventLog mine(dir / "run.jsonl");
      for (int i = 0; i < 200; ++i) mine.append(step(t * 200 + i, i));
    });
  for (auto& t : threads) t.join();
  const auto r = read_event_log(dir / "run.jsonl");
  EXPECT_EQ(r.steps.size(), 1600u);
  EXPECT_EQ(r.skipped_lines, 0u);
}

TEST(EventLog, AFullDiskIsAnIoErrorAndLeavesWholeLines) {
  const test::TemporaryDirectory dir;
  EventLog log(dir / "run.jsonl");
  log.append(step(1, 1));
  const auto before = fs::file_size(dir / "run.jsonl");
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = old;
  small.rlim_cur = before + 20;
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(log.append(step(2, 2)), Error);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(fs::file_size(dir / "run.jsonl"), before);
  log.append(step(3, 3));
  EXPECT_EQ(read_event_log(dir / "run.jsonl").steps.size(), 2u);
  EXPECT_EQ(read_event_log(dir / "run.jsonl").skipped_lines, 0u);
}

TEST(EventLog, AnImpossiblePathIsAnIoError) {
  const test::TemporaryDirectory dir;
  EXPECT_THROW(EventLog(dir / "no/run.jsonl"), Error);
  EXPECT_THROW(EventLog(dir.path()), Error);
  EXPECT_THROW(read_event_log(dir / "none"), Error);
}

TEST(EventLog, RunIdsAreUniqueAndTimesAreUtc) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(new_run_id());
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(utc_time_text().size(), 24u);
  EXPECT_EQ(utc_time_text().back(), 'Z');
}

}  // namespace
}  // namespace mt
