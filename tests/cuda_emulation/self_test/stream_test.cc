// Streams of the emulation: as late as they may, in order, and never without the wait that is needed.
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/buffer.h"
#include "device/cuda/launch.h"
#include "device/graph.h"
#include "device/message_stream.h"

namespace mt::cuda {
namespace {

const Device kDevice{DeviceKind::cuda, 0};

__global__ void set_to(int* out, int value) { *out = value; }
__global__ void copy_int(int* out, const int* in) { *out = *in; }

struct Ints {
  Buffer buffer{kDevice, 64, Memory::pinned};
  int& operator[](std::size_t i) const { return reinterpret_cast<int*>(buffer.data())[i]; }
};

bool shuffled() { return emulation::seed() != 0; }

TEST(EmulatedStream, WorkRunsWhenSomebodyWaitsAndNoSooner) {
  if (shuffled()) GTEST_SKIP() << "with a seed work may run at any time";
  const Ints x;
  Stream s(kDevice);
  launch(s, set_to, {}, &x[0], 3);
  EXPECT_EQ(x[0], 0);
  s.synchronize();
  EXPECT_EQ(x[0], 3);
}

TEST(EmulatedStream, AnEventRunsTheWorkBeforeItAndNothingAfter) {
  if (shuffled()) GTEST_SKIP() << "with a seed work may run at any time";
  const Ints x;
  Stream s(kDevice);
  launch(s, set_to, {}, &x[0], 1);
  const Event e = s.record();
  launch(s, set_to, {}, &x[0], 2);
  EXPECT_FALSE(e.done());
  e.synchronize();
  EXPECT_TRUE(e.done());
  EXPECT_EQ(x[0], 1);
}

TEST(EmulatedStream, AMissingWaitReadsWhatWasThereBefore) {
  if (shuffled()) GTEST_SKIP() << "with a seed the producer may happen to be first";
  const Ints x;
  Stream producer(kDevice), consumer(kDevice);
  launch(producer, set_to, {}, &x[0], 7);
  launch(consumer, copy_int, {}, &x[1], &x[0]);
  consumer.synchronize();
  EXPECT_EQ(x[1], 0);
}

TEST(EmulatedStream, AWaitBringsTheOtherStreamFirst) {
  const Ints x;
  Stream producer(kDevice), consumer(kDevice);
  launch(producer, set_to, {}, &x[0], 7);
  consumer.wait(producer.record());
  launch(consumer, copy_int, {}, &x[1], &x[0]);
  consumer.synchronize();
  EXPECT_EQ(x[1], 7);
}

TEST(EmulatedStream, WhoOnlyAsksGetsThereToo) {
  const Ints x;
  Stream s(kDevice);
  launch(s, set_to, {}, &x[0], 1);
  const Event e = s.record();
  int asked = 0;
  while (!e.done() && asked < 100) ++asked;
  EXPECT_LT(asked, 100);
  EXPECT_EQ(x[0], 1);
}

TEST(EmulatedStream, ScratchGrowsInStreamOrder) {
  const Ints x;
  Stream s(kDevice);
  auto* small = reinterpret_cast<int*>(scratch(s, 64));
  launch(s, set_to, {}, small, 5);
  launch(s, copy_int, {}, &x[0], static_cast<const int*>(small));
  EXPECT_EQ(scratch(s, 32), reinterpret_cast<std::byte*>(small));
  auto* large = reinterpret_cast<int*>(scratch(s, 1 << 16));
  EXPECT_NE(large, small);
  launch(s, set_to, {}, large, 6);
  launch(s, copy_int, {}, &x[1], static_cast<const int*>(large));
  s.synchronize();
  EXPECT_EQ(x[0], 5);
  EXPECT_EQ(x[1], 6);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % 256, 0u);
}

// A graph's kernels know the scratch memory there was: it is nobody else's while the stream lives.
TEST(EmulatedStream, ScratchOfAGraphStaysWhenMoreIsWanted) {
  const Ints x;
  Stream s(kDevice);
  constexpr std::size_t kSmall = 3 << 12;
  auto* small = reinterpret_cast<int*>(scratch(s, kSmall));
  const Graph graph = Graph::capture(s, [&] {
    launch(s, set_to, {}, small, 5);
    launch(s, copy_int, {}, &x[0], static_cast<const int*>(small));
  });
  EXPECT_NE(scratch(s, 4 * kSmall), reinterpret_cast<std::byte*>(small));
  s.synchronize();
  const Buffer other(kDevice, kSmall);
  EXPECT_NE(other.data(), reinterpret_cast<std::byte*>(small));
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x[0], 5);
}

// Forked by an event and joined by another, as messages are beside compute.
TEST(EmulatedStream, AGraphHoldsTheWorkOfStreamsThatAreForkedAndJoined) {
  const Ints x;
  Stream s(kDevice), side(kDevice);
  const Graph graph = Graph::capture(s, [&] {
    launch(s, copy_int, {}, &x[1], static_cast<const int*>(&x[0]));
    side.wait(s.record());
    launch(side, copy_int, {}, &x[2], static_cast<const int*>(&x[1]));
    launch(s, set_to, {}, &x[4], 8);
    s.wait(side.record());
    launch(s, copy_int, {}, &x[3], static_cast<const int*>(&x[2]));
  });
  side.synchronize();
  EXPECT_EQ(x[2], 0) << "noted, not run";
  for (const int value : {7, 9}) {
    x[0] = value;
    x[4] = 0;
    graph.launch(s);
    s.synchronize();
    EXPECT_EQ(x[3], value);
    EXPECT_EQ(x[4], 8);
  }
}

TEST(EmulatedStream, AMissingWaitInsideAGraphReadsWhatWasThereBefore) {
  if (shuffled()) GTEST_SKIP() << "with a seed the producer may happen to be first";
  const Ints x;
  Stream s(kDevice), side(kDevice);
  const Graph graph = Graph::capture(s, [&] {
    side.wait(s.record());
    launch(s, set_to, {}, &x[0], 7);
    launch(side, copy_int, {}, &x[1], static_cast<const int*>(&x[0]));  // waits for what was before, not for this
    launch(side, set_to, {}, &x[2], 5);
    launch(s, copy_int, {}, &x[3], static_cast<const int*>(&x[2]));
    s.wait(side.record());
  });
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x[2], 5);
  EXPECT_EQ(x[3], 0);
}

TEST(EmulatedStream, AGraphEndsWithEveryStreamJoinedAndKnowsNoEventFromOutside) {
  const Ints x;
  Stream s(kDevice), side(kDevice);
  const auto refused = [&](const std::function<void()>& work) {
    try {
      Graph::capture(s, work);
    } catch (const Error& e) {
      return e.code() == Code::device;
    }
    return false;
  };
  EXPECT_TRUE(refused([&] {
    side.wait(s.record());
    launch(side, set_to, {}, &x[0], 7);
  })) << "not joined";
  const Event before = side.record();
  EXPECT_TRUE(refused([&] { s.wait(before); })) << "an event of before";
  Event inside;
  EXPECT_TRUE(refused([&] {
    inside = s.record();
    EXPECT_THROW((void)inside.done(), Error);
  })) << "a question about an event that is noted";
  EXPECT_THROW(side.wait(inside), Error) << "nothing outside comes after it";
  EXPECT_FALSE(refused([&] { launch(s, set_to, {}, &x[1], 4); })) << "the streams are as they were";
  launch(side, set_to, {}, &x[2], 6);
  side.synchronize();
  EXPECT_EQ(x[2], 6);
}

TEST(EmulatedStream, StreamsForMessagesGoFirst) {
  Stream plain(kDevice), first = message_stream(kDevice), after(kDevice);
  int least = 0, greatest = 0, is = 1;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LT(greatest, least);
  for (const auto& [stream, wanted] : {std::pair(&plain, least), std::pair(&first, greatest), std::pair(&after, least)}) {
    ASSERT_EQ(cudaStreamGetPriority(native(*stream), &is), cudaSuccess);
    EXPECT_EQ(is, wanted);
  }
  cudaStream_t none = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&none, cudaStreamNonBlocking, greatest - 1), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(EmulatedStream, CallsThatWaitOnTheHostAreCounted) {
  Stream s(kDevice);
  const Event e = s.record();
  emulation::take_host_waits();
  s.synchronize();
  e.synchronize();
  e.synchronize();
  EXPECT_TRUE(e.done());
  const std::map<std::string, int> wanted{{"cudaStreamSynchronize", 1}, {"cudaEventSynchronize", 2}};
  EXPECT_EQ(emulation::take_host_waits(), wanted);
  EXPECT_TRUE(emulation::take_host_waits().empty());
}

}  // namespace
}  // namespace mt::cuda
