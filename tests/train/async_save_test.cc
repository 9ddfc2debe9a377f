// --async-save through the whole loop.

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TrainingOptions saving(const test::TempDir& dir, const std::string& where, bool async) {
  auto o = test::tiny_options(dir);
  o.train_iters = 10;
  o.lr.decay_iters = 100;
  o.save = dir / where;
  o.save_interval = 3;
  o.async_save = async;
  return o;
}

void expect_same_files(const fs::path& a, const fs::path& b) {
  for (const auto& e : fs::directory_iterator(a)) {
    if (e.path().extension() != ".safetensors") continue;
    EXPECT_TRUE(read_file(e.path()) == read_file(b / e.path().filename())) << e.path();
  }
}

TEST(AsyncSaveOfARun, LeavesTheCheckpointsAndTheCurveOfOneThatWaits) {
  const test::TempDir dir;
  const auto waits = saving(dir, "sync", false), goes_on = saving(dir, "async", true);
  const auto a = test::run_tiny(waits, 2), b = test::run_tiny(goes_on, 2);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  for (const std::int64_t i : {3, 6, 9, 10})
    expect_same_files(fs::path(waits.save) / iteration_name(i), fs::path(goes_on.save) / iteration_name(i));
  EXPECT_EQ(read_tracker(goes_on.save), 10);
  EXPECT_EQ(list_iterations(goes_on.save).size(), 4u);

  auto more = saving(dir, "async", true);
  more.load = more.save;
  more.train_iters = 12;
  EXPECT_EQ(test::run_tiny(more, 2).loss.size(), 2u);
  EXPECT_EQ(read_tracker(more.save), 12);
}

TEST(AsyncSaveOfARun, EverySaveIsRecordedOnceItIsComplete) {
  const test::TempDir dir;
  auto o = saving(dir, "run", true);
  o.save_retain_interval = 6;
  TrainerHooks hooks;
  hooks.after_step = [&](std::int64_t i, double, double) {
    const auto tracked = read_tracker(o.save);
    if (!tracked) return;
    EXPECT_LE(*tracked, i - 1);
    const std::string problem = condition_of(fs::path(o.save) / iteration_name(*tracked)).problem;
    // The save under way may have moved the tracker on and removed this one meanwhile.
    if (read_tracker(o.save) == tracked) {
      EXPECT_EQ(problem, "");
    }
  };
  test::run_tiny(o, 2, hooks);
  std::vector<std::int64_t> recorded;
  std::ifstream lines(o.metrics_file);
  for (std::string line; std::getline(lines, line);) {
    const auto j = Json::parse(line);
    if (j["event"] != "checkpoint") continue;
    recorded.push_back(j["iteration"]);
    EXPECT_LE(j["stall_s"].get<double>(), j["seconds"].get<double>());
  }
  EXPECT_EQ(recorded, (std::vector<std::int64_t>{3, 6, 9, 10}));
  std::vector<std::int64_t> left;
  for (const auto& i : list_iterations(o.save)) left.push_back(i.iteration);
  EXPECT_EQ(left, (std::vector<std::int64_t>{6, 10}));
}

TEST(AsyncSaveOfARun, AFailedWriteStopsAllRanksAndKeepsTheLastCheckpoint) {
  const test::TempDir dir;
  const auto o = saving(dir, "run", true);
  TrainerHooks hooks;
  hooks.after_step = [&](std::int64_t i, double, double) {  // from here on the tracker cannot be replaced
    EXPECT_LT(i, 10) << "the run went on";
    const fs::path tracker = fs::path(o.save) / kTrackerName;
    std::error_code ignored;
    while (i == 5 && !fs::is_directory(tracker)) {  // the save of 3 may be putting it there just now
      fs::remove(tracker, ignored);
      fs::create_directories(tracker / "in the way", ignored);
    }
  };
  try {
    test::run_tiny(o, 2, hooks);
    FAIL() << "nobody noticed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::io) << e.what();
    EXPECT_NE(std::string(e.what()).find(kTrackerName), std::string::npos) << "whichever rank is heard: " << e.what();
  }
  fs::remove_all(fs::path(o.save) / kTrackerName);
  EXPECT_GE(resolve(o.save).iteration, 3) << "complete ones stay";
}

TEST(AsyncSaveOfARun, ASignalSavesAndWaitsForIt) {
  const test::TempDir dir;
  auto o = saving(dir, "run", true);
  TrainerHooks hooks;
  hooks.after_step = [&](std::int64_t i, double, double) {
    if (i == 6) std::raise(SIGTERM);
  };
  EXPECT_EQ(test::run_tiny(o, 2, hooks).status, static_cast<int>(Code::signal_saved));
  EXPECT_EQ(read_tracker(o.save), 6);
  EXPECT_EQ(resolve(o.save).iteration, 6);
}

TEST(AsyncSaveOfARun, WithoutADirectoryItIsRefused) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.async_save = true;
  EXPECT_THROW(complete_options(o, 1), Error);
}

}  // namespace
}  // namespace mt
