// Saves beside training: the same files, a tracker that moves late, failures that everybody hears of.

#include "engine/async_save.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_directory.h"
#include "ckpt/iterations.h"
#include "ckpt/verify.h"
#include "engine/interrupted_world.h"
#include "engine/rank_state.h"

namespace mt {
namespace {

using test::RankState;
using test::TemporaryDirectory;

TrainingState state_of(RankState& r) { return {r.stream, r.groups, r.store, r.optimizer}; }

// New bits in every byte that is saved, as training gives them while a save is under way.
void change_state(RankState& r, std::uint64_t salt) {
  for (std::size_t i = 0; i < r.store.plan().shards.size(); ++i)
    for (const View& v : {r.store.shard_weight(i), r.optimizer.shard_master(i), r.optimizer.shard_exp_avg(i),
                          r.optimizer.shard_exp_avg_sq(i)})
      for (std::size_t k = 0; k < static_cast<std::size_t>(v.bytes()); ++k)
        static_cast<unsigned char*>(v.data)[k] = static_cast<unsigned char>((k * 2654435761u + i * 40503u + salt * 977u) >> 7);
}

ParallelSpec with_zero(int tp, int dp, int stage) {
  auto p = test::layout(tp, dp);
  p.zero_stage = stage;
  return p;
}

void expect_same_files(const fs::path& a, const fs::path& b) {
  std::size_t files = 0;
  for (const auto& e : fs::directory_iterator(a)) {
    ++files;
    EXPECT_TRUE(read_file(e.path()) == read_file(b / e.path().filename())) << e.path();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(b), {}), static_cast<std::ptrdiff_t>(files));
}

TEST(AsyncSave, FilesAreThoseOfTheMomentItBeganBitForBit) {
  for (const auto compute : {DType::f32, DType::bf16})
    for (const int stage : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} ZeRO {}", dtype_name(compute), stage));
      const TemporaryDirectory dir;
      test::on_ranks(4, [&](Communicator& world) {
        RankState r(world, test::small_model({true, 8, 2, 1031}), with_zero(2, 2, stage), compute);
        AsyncSaver saver({dir / "async"}, state_of(r));
        for (const std::int64_t iteration : {7, 8}) {  // the second uses the snapshot again
          change_state(r, static_cast<std::uint64_t>(iteration));
          test::save(dir / "sync", world, r, iteration);
          saver.start(test::meta_of(r, world, iteration));
          change_state(r, 1);
          const auto saved = saver.finish();
          ASSERT_TRUE(saved.has_value());
          EXPECT_EQ(saved->iteration, iteration);
          EXPECT_FALSE(saver.under_way());
        }
      });
      for (const std::int64_t i : {7, 8}) expect_same_files(dir / "sync" / iteration_name(i), dir / "async" / iteration_name(i));
      EXPECT_EQ(read_tracker(dir / "async"), 8);
    }
}

TEST(AsyncSave, TheTrackerMovesOnlyAfterAllRanksHaveSeenAllFilesDurable) {
  const TemporaryDirectory dir;
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(1, 2));
    test::fill(r);
    test::save(dir.path(), world, r, 7);
    AsyncSaver saver({dir.path()}, state_of(r));
    EXPECT_FALSE(saver.poll()) << "nothing to do";
    saver.start(test::meta_of(r, world, 8));
    // Files are there long before anybody asks; still nothing is published.
    while (!fs::exists(dir / temporary_name(8) / rank_file_name(world.rank()))) std::this_thread::yield();
    EXPECT_EQ(read_tracker(dir.path()), 7);
    EXPECT_FALSE(fs::exists(dir / iteration_name(8)));
    world.barrier(r.stream).wait_host();
    std::optional<SavedIteration> saved;
    int polls = 0;
    while (!saved) saved = saver.poll(), ++polls;
    EXPECT_GE(polls, 2) << "one to agree on the files, one on the commit";
    EXPECT_EQ(read_tracker(dir.path()), 8);
    EXPECT_GT(saved->stall_s, 0);
    EXPECT_GE(saved->seconds, saved->stall_s);
  });
  EXPECT_TRUE(verify_checkpoint(dir / iteration_name(8)).problems.empty());
}

TEST(AsyncSave, WhatIsSupersededGoesWithTheCommit) {
  const TemporaryDirectory dir;
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(2, 1));
    test::fill(r);
    AsyncSaver saver({dir.path(), 4}, state_of(r));
    for (const std::int64_t i : {2, 4, 6}) {
      saver.start(test::meta_of(r, world, i));
      EXPECT_TRUE(saver.finish());
    }
    EXPECT_FALSE(saver.finish()) << "nothing is under way";
  });
  std::vector<std::int64_t> left;
  for (const auto& i : list_iterations(dir.path())) left.push_back(i.iteration);
  EXPECT_EQ(left, (std::vector<std::int64_t>{4, 6}));
}

// Agreements of a save: 1 the directory, 2 the files (finish() asks when its own are written). `strike` happens on one
// rank after the n-th.
void expect_failure_everywhere(int after, int failing_rank, Code code, const std::string& words,
                               const std::function<void(const fs::path&)>& strike) {
  const TemporaryDirectory dir;
  std::atomic<int> failed{0};
  test::on_ranks(4, [&](Communicator& inner) {
    RankState before(inner, test::small_model(), test::layout(2, 2));
    test::fill(before);
    test::save(dir.path(), inner, before, 7);
    test::Interrupted world(inner, inner.rank() == failing_rank ? after : 0, [&] { strike(dir / temporary_name(8)); });
    RankState r(world, test::small_model(), test::layout(2, 2));
    test::fill(r);
    AsyncSaver saver({dir.path()}, state_of(r));
    try {
      saver.start(test::meta_of(r, world, 8));
      saver.finish();
    } catch (const Error& e) {
      ++failed;
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
    EXPECT_FALSE(saver.under_way());
  });
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(read_tracker(dir.path()), 7);
  EXPECT_FALSE(fs::exists(dir / temporary_name(8))) << "nothing is left over";
  EXPECT_FALSE(fs::exists(dir / iteration_name(8)));
}

TEST(AsyncSave, AWriteThatFailsOnOneRankFailsTheSaveOnAllAndNamesTheFile) {
  expect_failure_everywhere(1, 1, Code::io, data_file_name(1),
                            [](const fs::path& tmp) { fs::create_directory(tmp / data_file_name(1)); });
}

TEST(AsyncSave, ACommitThatFailsFailsTheSaveOnAll) {
  expect_failure_everywhere(2, 0, Code::corrupt, rank_file_name(1),
                            [](const fs::path& tmp) { fs::remove(tmp / rank_file_name(1)); });
}

TEST(AsyncSave, ADirectoryThatCannotBeMadeFailsOnAll) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << "text";
  std::atomic<int> failed{0};
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(2, 1));
    AsyncSaver saver({dir / "file"}, state_of(r));
    try {
      saver.start(test::meta_of(r, world, 1));
    } catch (const Error& e) {
      ++failed;
      EXPECT_EQ(e.code(), Code::io) << e.what();
    }
    EXPECT_FALSE(saver.under_way());
  });
  EXPECT_EQ(failed, 2);
}

TEST(AsyncSave, OneThatIsGivenUpLeavesTheLastCheckpointAndTheNextSaveWorks) {
  const TemporaryDirectory dir;
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(1, 2));
    test::fill(r);
    test::save(dir.path(), world, r, 7);
    {
      AsyncSaver saver({dir.path()}, state_of(r));
      saver.start(test::meta_of(r, world, 8));
    }
    EXPECT_EQ(resolve(dir.path()).iteration, 7);
    world.barrier(r.stream).wait_host();
    AsyncSaver saver({dir.path()}, state_of(r));
    saver.start(test::meta_of(r, world, 8));
    EXPECT_TRUE(saver.finish());
  });
  EXPECT_EQ(resolve(dir.path()).iteration, 8);
}

}  // namespace
}  // namespace mt
