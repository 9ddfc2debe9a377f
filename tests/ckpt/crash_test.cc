// kill -9 at arbitrary moments of a save: the tracker names a complete checkpoint, always. Killing at the n-th file
// operation, one after the other, is done by tests/cli with the fault shim.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/files.h"
#include "ckpt/iterations.h"
#include "ckpt/sample_checkpoint.h"
#include "ckpt/verify.h"

namespace mt {
namespace {

// Saves iterations first, first+1, ... (each twice, so that swapping is hit too) until killed.
[[noreturn]] void save_forever(const fs::path& root, std::int64_t first) {
  for (std::int64_t i = first;; ++i)
    for (int again = 0; again < 2; ++again) {
      test::save(root, i, test::one_rank(test::sample_tensors()), static_cast<std::uint64_t>(i));
      retain(root, {2, 0});
    }
}

TEST(Crash, AKilledSaveNeverCostsTheLastCompleteCheckpoint) {
  const test::TemporaryDirectory root;
  test::save(root.path(), 1, test::one_rank(test::sample_tensors()), 1);
  std::mt19937 rng(std::random_device{}());
  const auto seed = rng();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  rng.seed(seed);
  std::int64_t last = 1;
  for (int round = 0; round < 25; ++round) {
    const auto pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) save_forever(root.path(), last);
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % 40000));
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saver ended by itself";

    const auto tracked = read_tracker(root.path());
    ASSERT_TRUE(tracked);
    ASSERT_GE(*tracked, last);
    const auto found = resolve(root.path());
    ASSERT_EQ(found.iteration, *tracked);
    ASSERT_TRUE(verify_checkpoint(found.dir).problems.empty());
    test::expect_content(Reader(found.dir), test::sample_tensors(), static_cast<std::uint64_t>(*tracked));
    ASSERT_EQ(read_manifest(found.dir).meta.consumed_samples, *tracked * 8);
    last = *tracked;
  }
}

}  // namespace
}  // namespace mt
