#include "ckpt/save_lock.h"

#include <fstream>

#include "base/error.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TEST(SaveLock, ASecondRunOnTheSameDirectoryIsRefusedWhileTheFirstLives) {
  const test::TempDir dir;
  {
    const SaveLock first(dir / "run", false);
    EXPECT_THROW(SaveLock(dir / "run", false), Error);
  }
  const SaveLock after(dir / "run", false);
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
  o.adam.eps = 0;
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
