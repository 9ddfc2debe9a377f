// --save-local through the whole loop: saved fast, durable later, and a start takes the newer of the two.

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "ckpt/verify.h"
#include "train/resume.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TrainingOptions saving(const test::TempDir& dir, const std::string& where, bool async = false) {
  auto o = test::tiny_options(dir);
  o.train_iters = 10;
  o.lr.decay_iters = 100;
  o.save = dir / where;
  o.save_local = dir / (where + "-local");
  o.save_interval = 4;
  o.async_save = async;
  return o;
}

std::vector<std::int64_t> iterations_in(const std::string& root) {
  std::vector<std::int64_t> out;
  for (const auto& i : list_iterations(root)) out.push_back(i.complete ? i.iteration : -1);
  return out;
}

// As a machine that dies after the last save was made and before it was durable leaves it.
void take_back_to(const std::string& save, std::int64_t from, std::int64_t to) {
  fs::remove_all(fs::path(save) / iteration_name(from));
  write_file_atomic(fs::path(save) / kTrackerName, fmt::format("{}\n", to));
}

std::string refusal(const TrainingOptions& o) {
  try {
    test::run_tiny(o, 2);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config) << e.what();
    return e.what();
  }
  return "none";
}

TEST(SaveLocal, EverySaveBecomesDurableAndBothMomentsAreRecorded) {
  for (const bool async : {false, true}) {
    const test::TempDir dir;
    const auto o = saving(dir, "run", async);
    test::run_tiny(o, 2);
    EXPECT_EQ(iterations_in(o.save), (std::vector<std::int64_t>{4, 8, 10}));
    EXPECT_EQ(iterations_in(o.save_local), std::vector<std::int64_t>{10});
    EXPECT_TRUE(verify_checkpoint(fs::path(o.save) / iteration_name(10)).problems.empty());
    std::vector<std::string> recorded;
    std::ifstream lines(o.metrics_file);
    for (std::string line; std::getline(lines, line);)
      if (const auto j = Json::parse(line); j["event"] == "checkpoint")
        recorded.push_back(fmt::format("{} {}", j["iteration"].get<int>(), j.contains("durable_s") ? "durable" : "saved"));
    EXPECT_EQ(recorded, (std::vector<std::string>{"4 saved", "4 durable", "8 saved", "8 durable", "10 saved", "10 durable"}));
  }
}

TEST(SaveLocal, WhatNeverBecameDurableIsGoneOnFromAndCopied) {
  const test::TempDir dir;
  const auto whole = saving(dir, "whole");
  auto longer = whole;
  longer.train_iters = 14;
  const auto wanted = test::run_tiny(longer, 2).loss;
  auto o = saving(dir, "run");
  test::run_tiny(o, 2);
  take_back_to(o.save, 10, 8);
  o.load = o.save;
  o.train_iters = 14;
  o.save_interval = 100;
  const auto rest = test::run_tiny(o, 2).loss;
  EXPECT_EQ(rest, std::vector<double>(wanted.begin() + 10, wanted.end()));
  EXPECT_EQ(iterations_in(o.save), (std::vector<std::int64_t>{4, 8, 10, 14}));
}

TEST(SaveLocal, ALostOrDamagedLocalDirectoryIsNoMatter) {
  for (const bool damaged : {false, true}) {
    const test::TempDir dir;
    auto o = saving(dir, "run");
    test::run_tiny(o, 2);
    if (damaged) fs::resize_file(fs::path(o.save_local) / iteration_name(10) / data_file_name(0), 100);
    else fs::remove_all(o.save_local);
    take_back_to(o.save, 10, 8);
    o.load = o.save;
    EXPECT_EQ(resolve_load(o).ignored.size(), damaged ? 1u : 0u) << "what is damaged is said";
    EXPECT_EQ(test::run_tiny(o, 2).loss.size(), 2u) << "from iteration 8";
    EXPECT_EQ(iterations_in(o.save), (std::vector<std::int64_t>{4, 8, 10}));
  }
}

TEST(SaveLocal, WrongBytesInTheLocalDirectoryAreFoundBeforeARunGoesOnFromThem) {
  const test::TempDir dir;
  auto o = saving(dir, "run");
  test::run_tiny(o, 2);
  const auto file = fs::path(o.save_local) / iteration_name(10) / data_file_name(0);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(-5, std::ios::end);
  const char turned = static_cast<char>(~bytes.peek());
  bytes.seekp(-5, std::ios::end);
  bytes.put(turned);
  bytes.close();
  take_back_to(o.save, 10, 8);
  o.load = o.save;
  testing::internal::CaptureStderr();
  const auto curve = test::run_tiny(o, 2);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(curve.loss.size(), 2u) << "from iteration 8";
  EXPECT_NE(said.find("passed over " + (fs::path(o.save_local) / iteration_name(10)).string()), std::string::npos) << said;
  EXPECT_EQ(iterations_in(o.save), (std::vector<std::int64_t>{4, 8, 10}));
}

TEST(SaveLocal, ASignalWaitsUntilItsSaveIsDurable) {
  const test::TempDir dir;
  const auto o = saving(dir, "run");
  TrainerHooks hooks;
  hooks.after_step = [&](std::int64_t i, double, double) {
    if (i == 6) std::raise(SIGTERM);
  };
  EXPECT_EQ(test::run_tiny(o, 2, hooks).status, static_cast<int>(Code::signal_saved));
  EXPECT_EQ(resolve(o.save).iteration, 6);
}

TEST(SaveLocal, AnotherRunsDirectoryIsRefused) {
  const test::TempDir dir;
  const auto first = saving(dir, "run");
  test::run_tiny(first, 2);
  auto other = saving(dir, "other");
  other.save_local = first.save_local;
  EXPECT_NE(refusal(other).find("--save-local"), std::string::npos);
  // It goes on from its own --save, but what lies there is on its way elsewhere.
  auto own = saving(dir, "own");
  own.save_local.clear();
  test::run_tiny(own, 2);
  own.load = own.save;
  own.train_iters = 12;
  own.save_local = first.save_local;
  EXPECT_NE(refusal(own).find(fs::weakly_canonical(first.save).string()), std::string::npos);
}

TEST(SaveLocal, DirectoriesThatLieInEachOtherAreRefused) {
  const test::TempDir dir;
  for (const auto& [save, local] : {std::pair{"a", "a"}, {"a", "a/b"}, {"a/b", "a"}}) {
    auto o = saving(dir, "run");
    o.save = dir / save;
    o.save_local = dir / local;
    EXPECT_THROW(complete_options(o, 1), Error) << save << ' ' << local;
  }
  auto o = saving(dir, "run");
  o.save.clear();
  EXPECT_THROW(complete_options(o, 1), Error);
}

}  // namespace
}  // namespace mt
