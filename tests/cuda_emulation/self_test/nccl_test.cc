// The emulated NCCL: late, together, and with words for what real ranks would hang on.
#include "nccl.h"

#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "device/cuda/runtime.h"
#include "device/graph.h"
#include "device/host_side.h"

namespace mt::cuda {
namespace {

// One communicator over devices 0 and 1, both driven from this thread.
struct TwoRanks {
  Stream first{{DeviceKind::cuda, 0}}, second{{DeviceKind::cuda, 1}};
  ncclComm_t comms[2] = {};
  Buffer data[2] = {Buffer({DeviceKind::cuda, 0}, 64), Buffer({DeviceKind::cuda, 1}, 64)};
  TwoRanks() {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config{0};
    for (int r = 0; r < 2; ++r) {
      use_device(r);
      ncclCommInitRankConfig(&comms[r], 2, id, r, &config);
    }
  }
  cudaStream_t stream(int r) { return native(r == 0 ? first : second); }
  float* at(int r) { return reinterpret_cast<float*>(data[r].data()); }
  void set(int r, float value) { upload_bytes(r == 0 ? first : second, data[r].data(), &value, sizeof value); }
  float get(int r) {
    HostSide side(r == 0 ? first : second, data[r].data(), 4);
    side.fetch();
    return *side.as<float>();
  }
  ncclResult_t sum(int r, std::size_t count = 1) {
    return ncclAllReduce(at(r), at(r), count, ncclFloat32, ncclSum, comms[r], stream(r));
  }
  void settle() {
    ncclResult_t state = ncclInProgress;
    for (int r = 0; r < 2; ++r)
      for (state = ncclInProgress; state == ncclInProgress;) ncclCommGetAsyncError(comms[r], &state);
  }
};

TEST(EmulatedNccl, TheFirstOperationIsInProgressUntilItIsAskedAbout) {
  TwoRanks two;
  two.set(0, 1);
  two.set(1, 2);
  EXPECT_EQ(two.sum(0), ncclInProgress);
  EXPECT_EQ(two.sum(1), ncclInProgress);
  EXPECT_EQ(two.get(0), 1);  // not even queued
  two.settle();
  EXPECT_EQ(two.get(0), 3);
  EXPECT_EQ(two.get(1), 3);
  EXPECT_EQ(two.sum(1), ncclSuccess);
  EXPECT_EQ(two.sum(0), ncclSuccess);
  EXPECT_EQ(two.get(1), 6);
}

TEST(EmulatedNccl, AStreamWaitsForARankOfAnotherThread) {
  TwoRanks two;
  two.sum(0), two.sum(1);
  two.settle();
  two.set(0, 4);
  two.set(1, 5);
  two.sum(0);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    two.sum(1);
  });
  two.first.synchronize();
  other.join();
  EXPECT_EQ(two.get(0), 9);
}

TEST(EmulatedNccl, AnAbortEndsWhatWaitsForAPeer) {
  TwoRanks two;
  two.sum(0), two.sum(1);
  two.settle();
  two.sum(0);
  std::thread watcher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ncclCommAbort(two.comms[0]);
  });
  two.first.synchronize();
  watcher.join();
}

class EmulatedNcclDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(EmulatedNcclDeathTest, RanksThatDifferAreAMistake) {
  const auto after_one = [](const std::function<void(TwoRanks&)>& then) {
    TwoRanks two;
    two.sum(0), two.sum(1);
    two.settle();
    two.sum(0);
    then(two);
    two.first.synchronize();
  };
  EXPECT_DEATH(after_one([](TwoRanks& t) { t.sum(1, 2); }), "ncclAllReduce with 1 and 2 elements");
  EXPECT_DEATH(after_one([](TwoRanks& t) {
    ncclBroadcast(t.at(1), t.at(1), 1, ncclFloat32, 0, t.comms[1], t.stream(1));
  }), "call ncclAllReduce and ncclBroadcast");
}

TEST_F(EmulatedNcclDeathTest, MemoryOfTheHostAndCallsBesideOneInProgressAreMistakes) {
  EXPECT_DEATH({
    TwoRanks two;
    float x = 0;
    ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, two.comms[0], two.stream(0));
  }, "ncclAllReduce is given memory that is not its device's");
  EXPECT_DEATH({
    TwoRanks two;
    two.sum(0);
    two.sum(0);
  }, "ncclAllReduce beside a call that is in progress");
}

TEST(EmulatedNccl, AnAbortWaitsForTheEndOfAGraph) {
  TwoRanks two;
  two.sum(0), two.sum(1);
  two.settle();
  auto graph = std::make_unique<Graph>(Graph::capture(two.first, [&] { two.sum(0); }));
  std::atomic<bool> aborted = false;
  std::thread watcher([&] {
    ncclCommAbort(two.comms[0]);
    aborted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(aborted);
  graph.reset();
  watcher.join();
}

TEST_F(EmulatedNcclDeathTest, GraphsOfOneRankAloneAndThoseThatOutliveTheirCommunicatorAreMistakes) {
  const auto with_a_graph = [](const std::function<void(TwoRanks&, const Graph&)>& then) {
    TwoRanks two;
    two.sum(0), two.sum(1);
    two.settle();
    const Graph graph = Graph::capture(two.first, [&] { two.sum(0); });
    then(two, graph);
    two.first.synchronize();
  };
  EXPECT_DEATH(with_a_graph([](TwoRanks& two, const Graph& graph) {
    graph.launch(two.first);
    two.sum(1);
  }), "ncclAllReduce, some inside a graph and some not");
  EXPECT_DEATH(with_a_graph([](TwoRanks& two, const Graph&) { ncclCommDestroy(two.comms[0]); }),
               "destroyed that a graph knows");
  EXPECT_DEATH(with_a_graph([](TwoRanks& two, const Graph& graph) {
    Stream other({DeviceKind::cuda, 0}), theirs({DeviceKind::cuda, 1});
    two.sum(0);
    graph.launch(other);
    const Graph second = Graph::capture(two.second, [&] { two.sum(1); });
    two.sum(1);
    second.launch(theirs);
    other.synchronize();
  }), "runs before what was called on its communicator first");
}

}  // namespace
}  // namespace mt::cuda
