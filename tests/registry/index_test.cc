#include "registry/index.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_directory.h"
#include "registry/database.h"
#include "registry/event_log.h"

namespace mt {
namespace {

Json step(std::int64_t iteration, double loss) {
  return {{"event", "step"}, {"iteration", iteration}, {"loss", loss}, {"mfu", 0.25}};
}

// A log with a start and steps 1..n.
void write_run(const fs::path& path, int n, const Json& options = {{"lr", "0.001"}}) {
  EventLog log(path);
  auto run = run_event("mt-train", "0.1.0", options);
  run["run_id"] = log.run_id();
  log.append(run);
  for (int i = 1; i <= n; ++i) log.append(step(i, 10.0 / i));
}

TEST(RunIndex, FollowsALogAsItGrows) {
  const test::TemporaryDirectory dir;
  const auto log_path = dir / "run.jsonl", db = dir / "mt-runs.db";
  auto index = RunIndex::open(db.string());
  write_run(log_path, 3);
  EXPECT_TRUE(index.follow(log_path, 1000));
  auto look = RunIndex::open_for_reading(db);
  ASSERT_EQ(look.runs().size(), 1u);
  EXPECT_EQ(look.runs()[0].steps, 3);
  EXPECT_EQ(look.runs()[0].status, "running");
  EventLog log(log_path);
  log.append(step(3, 99.0));
  log.append(step(4, 1.5));
  log.append({{"event", "checkpoint"}, {"iteration", 4}, {"path", "c"}, {"bytes", 12}, {"seconds", 0.5}});
  log.append({{"event", "evaluation"}, {"iteration", 4}, {"name", "valid"}, {"loss", 2.0}});
  log.append({{"event", "plan"}, {"chosen", "tp 2"}});
  log.append(end_event("done", 3.0));
  EXPECT_TRUE(index.follow(log_path, 1000));
  const auto d = look.detail("last");
  EXPECT_EQ(d.run.run_id, log.run_id());
  EXPECT_EQ(d.run.status, "done");
  EXPECT_EQ(d.run.tool, "mt-train");
  EXPECT_EQ(d.run.options["lr"], "0.001");
  EXPECT_EQ(d.run.last_iteration, 4);
  EXPECT_EQ(d.run.last_loss, 1.5);
  ASSERT_EQ(d.steps.size(), 4u);
  EXPECT_EQ(d.steps[2]["loss"], 99.0);
  EXPECT_EQ(d.checkpoints.at(0)["path"], "c");
  EXPECT_EQ(d.evaluations.at(0)["name"], "valid");
  EXPECT_EQ(d.plans.size(), 1u);
}

TEST(RunIndex, AResumedRunStaysOneRunWithTheOptionsOfItsLastStart) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  write_run(dir / "run.jsonl", 5);
  index.follow(dir / "run.jsonl", 1000);
  {
    EventLog log(dir / "run.jsonl");
    log.append(end_event("killed", 1.0));
  }
  write_run(dir / "run.jsonl", 2, {{"lr", "0.002"}, {"seed", 7}});
  index.follow(dir / "run.jsonl", 1000);
  const auto look = RunIndex::open_for_reading(dir / "r.db");
  const auto runs = look.runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].starts, 2);
  EXPECT_EQ(runs[0].status, "running");
  EXPECT_EQ(runs[0].options["lr"], "0.002");
  EXPECT_EQ(runs[0].steps, 5);
}

TEST(RunIndex, RebuildingGivesWhatFollowingGave) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "a.db").string());
  for (int n = 1; n <= 3; ++n) {
    write_run(dir / fmt::format("run{}.jsonl", n), 4 * n);
    index.follow(dir / fmt::format("run{}.jsonl", n), 1000);
  }
  auto fresh = RunIndex::open((dir / "b.db").string());
  for (int n = 1; n <= 3; ++n) {
    EXPECT_TRUE(fresh.rebuild(dir / fmt::format("run{}.jsonl", n)));
    EXPECT_TRUE(fresh.rebuild(dir / fmt::format("run{}.jsonl", n)));  // again changes nothing
  }
  const auto a = RunIndex::open_for_reading(dir / "a.db").runs(), b = RunIndex::open_for_reading(dir / "b.db").runs();
  ASSERT_EQ(a.size(), 3u);
  ASSERT_EQ(b.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a[i].run_id, b[i].run_id);
    EXPECT_EQ(a[i].steps, b[i].steps);
    EXPECT_EQ(a[i].starts, b[i].starts);
    EXPECT_EQ(a[i].last_loss, b[i].last_loss);
  }
}

TEST(RunIndex, ALogThatWasReplacedByAnotherRunIsReadAnew) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  write_run(dir / "run.jsonl", 9);
  index.follow(dir / "run.jsonl", 1000);
  fs::remove(dir / "run.jsonl");
  write_run(dir / "run.jsonl", 12);
  index.follow(dir / "run.jsonl", 1000);
  const auto runs = RunIndex::open_for_reading(dir / "r.db").runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].run_id, EventLog(dir / "run.jsonl").run_id());
  EXPECT_EQ(runs[0].steps, 12);
}

TEST(RunIndex, ARecordThatWasMovedAsideForANewRunStaysInTheRegistry) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  write_run(dir / "run.jsonl", 9);
  index.follow(dir / "run.jsonl", 1000);
  fs::path moved;
  { EventLog::start_new(dir / "run.jsonl", &moved); }
  index.follow(moved, 1000);
  write_run(dir / "run.jsonl", 12);
  index.follow(dir / "run.jsonl", 1000);
  index.follow(dir / "run.jsonl", 1000);
  const auto runs = RunIndex::open_for_reading(dir / "r.db").runs();
  ASSERT_EQ(runs.size(), 2u);
  std::set<std::int64_t> steps{runs[0].steps, runs[1].steps};
  EXPECT_EQ(steps, (std::set<std::int64_t>{9, 12}));
}

TEST(RunIndex, TenWritersThatStartTogetherAllAppear) {
  const test::TemporaryDirectory dir;
  for (int round = 0; round < 3; ++round) {
    const auto db = dir / fmt::format("r{}.db", round);
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 10; ++i) {
      const auto pid = ::fork();
      if (pid == 0) {
        char c;
        ::close(gate[1]);
        (void)!::read(gate[0], &c, 1);  // returns for all at once when the parent closes its end
        const auto log = dir / fmt::format("run{}-{}.jsonl", round, i);
        auto index = RunIndex::open(db.string());
        write_run(log, 20);
        const bool ok = index.follow(log, 20000);
        ::_exit(ok ? 0 : 1);
      }
      children.push_back(pid);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (const auto pid : children) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0);
    }
    const auto runs = RunIndex::open_for_reading(db).runs();
    EXPECT_EQ(runs.size(), 10u);
    for (const auto& r : runs) EXPECT_EQ(r.steps, 20);
  }
}

TEST(RunIndex, ALockedRegistryWarnsAndCatchesUpLater) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  write_run(dir / "run.jsonl", 3);
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open((dir / "r.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(index.follow(dir / "run.jsonl", 20));
  EXPECT_FALSE(index.follow(dir / "run.jsonl", 20));
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("locked"), std::string::npos) << said;
  EXPECT_EQ(said.find("registry"), said.rfind("warning: registry") + 9) << said;  // once, not at every step
  ::sqlite3_close(other);
  EXPECT_TRUE(index.follow(dir / "run.jsonl", 1000));
  EXPECT_EQ(RunIndex::open_for_reading(dir / "r.db").runs().at(0).steps, 3);
}

TEST(RunIndex, AFullDiskWarnsAndTheRestIsTakenInLater) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  write_run(dir / "run.jsonl", 3);
  EXPECT_TRUE(index.follow(dir / "run.jsonl", 1000));
  {
    EventLog log(dir / "run.jsonl");
    for (int i = 4; i <= 5000; ++i) log.append(step(i, 1.0));
  }
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = old;
  small.rlim_cur = 100000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(index.follow(dir / "run.jsonl", 10));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("warning: registry"), std::string::npos);
  EXPECT_TRUE(index.follow(dir / "run.jsonl", 1000));
  EXPECT_EQ(RunIndex::open_for_reading(dir / "r.db").runs().at(0).steps, 5000);
}

TEST(RunIndex, NothingStopsARunWhereNoRegistryCanBe) {
  const test::TemporaryDirectory dir;
  write_run(dir / "run.jsonl", 1);
  std::ofstream(dir / "text.db") << std::string(5000, 'x');
  ::testing::internal::CaptureStderr();
  for (const auto& file : {dir / "no/such/r.db", dir / "text.db", dir.path()}) {
    auto index = RunIndex::open(file.string());
    EXPECT_FALSE(index.follow(dir / "run.jsonl", 10)) << file;
  }
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("text.db"), std::string::npos) << said;
  EXPECT_EQ(read_file(dir / "text.db"), std::string(5000, 'x'));
}

TEST(RunIndex, AReadOnlyRegistryWarnsAndStaysAsItIs) {
  const test::TemporaryDirectory dir;
  {
    auto index = RunIndex::open((dir / "r.db").string());
    write_run(dir / "run.jsonl", 1);
    index.follow(dir / "run.jsonl", 1000);
  }
  fs::permissions(dir / "r.db", fs::perms::owner_read | fs::perms::others_read);
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const auto pid = ::fork();
  if (pid == 0) {  // root is not stopped by permissions
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(77);
    auto index = RunIndex::open((dir / "r.db").string());
    ::_exit(index.follow(dir / "run.jsonl", 10) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  fs::permissions(dir.path(), fs::perms::owner_all);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(RunIndex::open_for_reading(dir / "r.db").runs().at(0).steps, 1);
}

TEST(RunIndex, NoneTurnsItOff) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open("none");
  EXPECT_FALSE(index.on());
  EXPECT_TRUE(index.follow(dir / "not even there", 10));
  EXPECT_FALSE(fs::exists("none"));
}

TEST(RunIndex, OneOffToolsAreRecordedWithoutAFile) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  EXPECT_TRUE(index.record({run_event("mt-reshard", "0.1.0", {{"input", "a"}}), end_event("done", 2.0)}));
  const auto r = RunIndex::open_for_reading(dir / "r.db").find("last");
  EXPECT_EQ(r.tool, "mt-reshard");
  EXPECT_EQ(r.status, "done");
  EXPECT_EQ(r.steps, 0);
  EXPECT_EQ(r.last_iteration, -1);
}

TEST(RunIndex, FindsByUniqueBeginningAndRefusesOthers) {
  const test::TemporaryDirectory dir;
  auto index = RunIndex::open((dir / "r.db").string());
  for (const char* id : {"aa1", "aa2", "b"}) {
    auto e = run_event("t", "v", Json::object());
    e["run_id"] = id;
    index.record({e});
  }
  const auto look = RunIndex::open_for_reading(dir / "r.db");
  EXPECT_EQ(look.find("b").run_id, "b");
  EXPECT_EQ(look.find("aa2").run_id, "aa2");
  EXPECT_THROW(look.find("aa"), Error);
  EXPECT_THROW(look.find("zz"), Error);
}

TEST(RunIndex, LookingAtWhatIsNoRegistryFails) {
  const test::TemporaryDirectory dir;
  EXPECT_THROW(RunIndex::open_for_reading(dir / "none.db"), Error);
  sqlite3* other = nullptr;
  ::sqlite3_open((dir / "other.db").c_str(), &other);
  ::sqlite3_exec(other, "CREATE TABLE t(x)", nullptr, nullptr, nullptr);
  ::sqlite3_close(other);
  EXPECT_THROW(RunIndex::open_for_reading(dir / "other.db"), Error);
  EXPECT_FALSE(fs::exists(dir / "none.db"));
}

TEST(RunIndex, ANewerVersionIsLeftAlone) {
  const test::TemporaryDirectory dir;
  { auto index = RunIndex::open((dir / "r.db").string()); }
  sqlite3* other = nullptr;
  ::sqlite3_open((dir / "r.db").c_str(), &other);
  ::sqlite3_exec(other, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  ::sqlite3_close(other);
  EXPECT_THROW(RunIndex::open_for_reading(dir / "r.db"), Error);
  ::testing::internal::CaptureStderr();
  auto index = RunIndex::open((dir / "r.db").string());
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("version 99"), std::string::npos);
}

TEST(RunIndex, NetworkFileSystemsDoNotCountAsLocal) {
  EXPECT_TRUE(is_network_file_system(0x6969));      // NFS
  EXPECT_TRUE(is_network_file_system(0x0bd00bd0));  // Lustre
  EXPECT_FALSE(is_network_file_system(0xef53));     // ext4
  EXPECT_FALSE(is_network_file_system(0x01021994)); // tmpfs
  EXPECT_TRUE(is_local_disk("/tmp"));
}

}  // namespace
}  // namespace mt
