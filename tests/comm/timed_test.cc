#include "comm/timed.h"

#include <mutex>
#include <thread>

#include "comm/ranks.h"
#include "comm/world.h"

namespace mt::comm {
namespace {

// Rank 1 comes 30 ms late: rank 0 stands still for that long, and results are what they were.
TEST(Timed, TheRankThatWaitsIsToldHowLongAndForWhat) {
  std::mutex mutex;
  double waited[2] = {0, 0};
  run_local_ranks(2, {}, [&](std::unique_ptr<Communicator> world) {
    const int me = world->rank();
    const StandStillSink sink = [&](const StandStill& s) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(s.group, "pair");
      if (std::string_view(s.operation) != "all_reduce") return;
      EXPECT_EQ(s.bytes, 8);
      waited[me] += std::chrono::duration<double>(s.end - s.begin).count();
    };
    const auto timed_world = timed(*world, sink);
    const auto pair = timed_world->make_group({0, 1}, "pair");
    Stream stream;
    if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    float x[2] = {1.0f + static_cast<float>(me), 2};
    pair->all_reduce(stream, View(x, DType::f32, {2}), Reduce::sum).wait_host();
    EXPECT_EQ(x[0], 3);
    EXPECT_EQ(x[1], 4);
    auto h = pair->barrier(stream);
    while (!h.test()) std::this_thread::yield();
  });
  EXPECT_GE(waited[0], 0.02);
  EXPECT_LT(waited[1], waited[0]);
}

}  // namespace
}  // namespace mt::comm
