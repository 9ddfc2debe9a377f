#include "device/cpu/parallel.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"

namespace mt {

TEST(Parallel, EveryBlockRunsOnceWithBordersThatIgnoreTheNumberOfThreads) {
  for (int threads : {1, 2, 3, 8}) {
    const Stream s({}, threads);
    for (std::int64_t n : {0, 1, 99, 100, 101, 1000}) {
      std::vector<std::atomic<int>> seen(1001);
      std::atomic<bool> borders{true};
      cpu::parallel_ranges(s, n, 100, [&](std::int64_t lo, std::int64_t hi) {
        if (lo % 100 != 0 || hi != std::min(n, lo + 100)) borders = false;
        for (std::int64_t i = lo; i < hi; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      EXPECT_TRUE(borders);
      for (std::int64_t i = 0; i < 1001; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i < n ? 1 : 0);
    }
  }
}

TEST(Parallel, TheLaunchingThreadPolls) {
  Stream s({}, 2);
  int polls = 0;
  s.set_poll([&] { ++polls; });
  cpu::parallel_blocks(s, 1, [](std::int64_t) {});
  EXPECT_EQ(polls, 1);
}

TEST(Device, TextAndInstructionClass) {
  EXPECT_EQ(device_text({}), "cpu");
  EXPECT_EQ(device_text({DeviceKind::cuda, 3}), "cuda:3");
  EXPECT_STRNE(cpu_isa_name(cpu_isa()), "?");
  EXPECT_GE(usable_cores(), 1);
}

TEST(Device, ThreadsOfARankAreThoseAskedForThenOpenMpsThenTheCoresOfItsShareOfTheHost) {
  const char* omp = std::getenv("OMP_NUM_THREADS");
  const std::string before = omp ? omp : "";
  ::setenv("OMP_NUM_THREADS", "5", 1);
  EXPECT_EQ(threads_per_rank(3, 1), 3);
  EXPECT_EQ(threads_per_rank(0, 1), 5);
  ::unsetenv("OMP_NUM_THREADS");
  ::unsetenv("MPI_LOCALNRANKS");
  EXPECT_EQ(threads_per_rank(0, 1), usable_cores());
  EXPECT_EQ(threads_per_rank(0, 100000), 1);
  // Of a large job one rank may be alone on its host.
  ::setenv("MPI_LOCALNRANKS", "1", 1);
  EXPECT_EQ(threads_per_rank(0, 100000), usable_cores());
  ::unsetenv("MPI_LOCALNRANKS");
  if (omp) ::setenv("OMP_NUM_THREADS", before.c_str(), 1);
}

}  // namespace mt
