#include "ckpt/save_lock.h"

#include <fstream>

#include "base/error.h"
#include "registry/event_log.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TEST(SaveLock, ASecondRunOnTheSameDirectoryIsRefusedWhileTheFirstLives) {
  const test::TempDir dir;
  {
    const SaveLock first(dir / "run", 1);
    EXPECT_THROW(SaveLock(dir / "run", 1), Error);
  }
  const SaveLock after(dir / "run", 1);
}

// What a fresh start would write over must not be there; nothing is touched.
TEST(SaveLock, AFreshRunDoesNotWriteOverAnotherRunsCheckpoints) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.metrics_file = "";
  o.train_iters = 2;
  o.save = dir / "run";
  test::run_tiny(o, 1);
  const auto refused = [&](const TrainingOptions& options) {
    try {
      test::run_tiny(options, 1);
      return std::string();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config) << e.what();
      return std::string(e.what());
    }
  };
  const std::string text = refused(o);
  for (const char* want : {"iterations up to 2", "--load", "another --save"})
    EXPECT_NE(text.find(want), std::string::npos) << text;
  o.train_iters = 1;  // also where the old iteration would stay, behind a tracker that names a lesser one
  EXPECT_NE(refused(o), "");
  auto tuned = o;
  tuned.finetune = true;
  tuned.load = dir / "run";
  EXPECT_NE(refused(tuned), "");
  // From elsewhere into it: refused too, unless it holds nothing from there on.
  auto other = o;
  other.save = dir / "other";
  test::run_tiny(other, 1);
  other.load = dir / "other";
  other.save = dir / "run";
  other.train_iters = 2;
  other.lr.override_scheduler = true;
  EXPECT_NE(refused(other), "");
  // The run itself goes on, and an initial state is a start for anything.
  o.load = dir / "run";
  o.train_iters = 3;
  o.lr.override_scheduler = true;
  EXPECT_EQ(test::run_tiny(o, 1).loss.size(), 1u);
  auto initial = test::tiny_options(dir);
  initial.save = dir / "initial";
  initial.train_iters = 0;
  test::run_tiny(initial, 1);
  initial.train_iters = 1;
  EXPECT_EQ(test::run_tiny(initial, 1).loss.size(), 1u);
}

TEST(Record, AFreshRunHasItsOwnAndLosesNoOther) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 2;
  test::run_tiny(o, 1);
  const auto first = read_event_log(o.metrics_file);
  o.train_iters = 3;
  test::run_tiny(o, 1);
  const auto second = read_event_log(o.metrics_file);
  EXPECT_NE(second.run_id, first.run_id);
  EXPECT_EQ(second.steps.size(), 3u);
  EXPECT_EQ(read_event_log(event_log_beside(o.metrics_file, first.run_id)).steps.size(), 2u);
}

TEST(SaveLock, AFileInTheWayStopsTheRunBeforeItTrains) {
  const test::TempDir dir;
  std::ofstream(dir / "run") << "text";
  auto o = test::tiny_options(dir);
  o.save = dir / "run";
  int steps = 0;
  TrainerHooks hooks;
  hooks.after_step = [&](std::int64_t, double, double) { ++steps; };
  try {
    test::run_tiny(o, 2, hooks);
    FAIL() << "trained without a place to save";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::io) << e.what();
  }
  EXPECT_EQ(steps, 0);
}

TEST(Options, SenselessNumbersAreListedNotTrained) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.lr.lr = INFINITY;
  o.optimizer.adam.eps = 0;
  o.model.rotary_percent = 2;
  o.model.squared_relu = true;
  o.eval_interval = -1;
  o.threads = 100000000;
  try {
    complete_options(o, 1);
    FAIL() << "accepted";
  } catch (const Error& e) {
    const std::string text = e.what();
    for (const char* want : {"lr inf", "adam-eps 0", "rotary-percent 2", "squared-relu", "eval-interval -1", "threads 100000000"})
      EXPECT_NE(text.find(want), std::string::npos) << want << " in:\n" << text;
  }
}

TEST(Ranks, StartedWithDifferentOptionsAreRefused) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 1;
  const auto complete = complete_options(o, 2);
  try {
    comm::run_local_ranks(2, {}, [&](std::unique_ptr<Communicator> world) {
      auto mine = complete;
      mine.resolved = {{"lr", world->rank() == 0 ? "1" : "2"}};
      train(*world, mine);
    });
    FAIL() << "two runs in one";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::comm);
  }
}

}  // namespace
}  // namespace mt
