// Checkpoints that go from a fast directory to the durable one: the same files, a tracker that moves late, failures that
// everybody hears of and that leave both directories whole.

#include "engine/durable_copy.h"

#include <gtest/gtest.h>

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

std::vector<std::int64_t> iterations_in(const fs::path& root) {
  std::vector<std::int64_t> out;
  for (const auto& i : list_iterations(root)) out.push_back(i.complete ? i.iteration : -1);
  return out;
}

TEST(DurableCopy, TheCopyIsBitForBitAndTheFastDirectoryKeepsTheNewest) {
  const TemporaryDirectory dir;
  test::on_ranks(3, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(1, 3));
    test::fill(r);
    DurableCopy copy(dir / "fast", {dir / "durable"}, r.stream, world);
    EXPECT_FALSE(copy.finish()) << "nothing is under way";
    for (const std::int64_t i : {4, 8}) {
      test::save(dir / "fast", world, r, i);
      test::save(dir / "same", world, r, i);
      copy.start(i);
      const auto copied = copy.finish();
      ASSERT_TRUE(copied);
      EXPECT_EQ(copied->iteration, i);
    }
  });
  EXPECT_EQ(iterations_in(dir / "fast"), std::vector<std::int64_t>{8});
  EXPECT_EQ(iterations_in(dir / "durable"), (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(read_tracker(dir / "durable"), 8);
  for (const auto& name : {iteration_name(4), iteration_name(8)}) {
    std::size_t files = 0;
    for (const auto& e : fs::directory_iterator(dir / "same" / name)) {
      ++files;
      EXPECT_TRUE(read_file(e.path()) == read_file(dir / "durable" / name / e.path().filename())) << e.path();
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(dir / "durable" / name), {}), static_cast<std::ptrdiff_t>(files));
  }
}

TEST(DurableCopy, ACheckpointOfMoreRanksIsCopiedWhole) {
  const TemporaryDirectory dir;
  test::on_ranks(4, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(2, 2));
    test::fill(r);
    test::save(dir / "fast", world, r, 5);
  });
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(1, 2));
    DurableCopy copy(dir / "fast", {dir / "durable"}, r.stream, world);
    copy.start(5);
    EXPECT_TRUE(copy.finish());
  });
  EXPECT_TRUE(verify_checkpoint(dir / "durable" / iteration_name(5)).problems.empty());
}

TEST(DurableCopy, TheRetainRuleHoldsInTheDurableDirectory) {
  const TemporaryDirectory dir;
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(2, 1));
    test::fill(r);
    DurableCopy copy(dir / "fast", {dir / "durable", 4}, r.stream, world);
    for (const std::int64_t i : {2, 4, 6}) {
      test::save(dir / "fast", world, r, i);
      copy.start(i);
      EXPECT_TRUE(copy.finish());
    }
  });
  EXPECT_EQ(iterations_in(dir / "durable"), (std::vector<std::int64_t>{4, 6}));
}

// `strike` happens on rank 1 after it agreed on the directory; no rank may think the copy is there.
void expect_failure_everywhere(Code code, const std::string& words, const std::function<void(const fs::path& dir)>& strike) {
  const TemporaryDirectory dir;
  std::atomic<int> failed{0};
  test::on_ranks(2, [&](Communicator& inner) {
    RankState before(inner, test::small_model(), test::layout(1, 2));
    test::fill(before);
    test::save(dir / "durable", inner, before, 7);
    test::save(dir / "fast", inner, before, 8);
    test::Interrupted world(inner, inner.rank() == 1 ? 1 : 0, [&] { strike(dir.path()); });
    RankState r(world, test::small_model(), test::layout(1, 2));
    DurableCopy copy(dir / "fast", {dir / "durable"}, r.stream, world);
    try {
      copy.start(8);
      copy.finish();
    } catch (const Error& e) {
      ++failed;
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
    EXPECT_FALSE(copy.under_way());
  });
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(iterations_in(dir / "durable"), std::vector<std::int64_t>{7});
  EXPECT_EQ(read_tracker(dir / "durable"), 7);
  EXPECT_EQ(read_tracker(dir / "fast"), 8);
}

TEST(DurableCopy, AFileThatCannotBeWrittenFailsTheCopyOnAllRanks) {
  expect_failure_everywhere(Code::io, data_file_name(1), [](const fs::path& dir) {
    fs::create_directory(dir / "durable" / temporary_name(8) / data_file_name(1));
  });
}

TEST(DurableCopy, AFileThatIsCutInTheFastDirectoryFailsTheCopyOnAllRanks) {
  expect_failure_everywhere(Code::corrupt, "ends after", [](const fs::path& dir) {
    fs::resize_file(dir / "fast" / iteration_name(8) / data_file_name(1), 100);
  });
}

}  // namespace
}  // namespace mt
