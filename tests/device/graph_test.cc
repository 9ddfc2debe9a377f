#include "device/graph.h"

#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/host_side.h"
#include "device/test_device.h"

namespace mt::test {
namespace {

class Graphs : public testing::Test {
 protected:
  void SetUp() override {
    if (on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  }
  int first(Stream& stream, const Buffer& b) {
    HostSide side(stream, b.data(), 64);
    side.fetch();
    return side.as<int>()[0];
  }
};

TEST_F(Graphs, WhatIsNotedRunsWhenItIsLaunchedAsOftenAsItIs) {
  Stream stream(test_device());
  const Buffer a(test_device(), 64), b(test_device(), 64), c(test_device(), 64);
  const Graph graph = Graph::capture(stream, [&] {
    copy_bytes(stream, b.data(), a.data(), 64);
    copy_bytes(stream, c.data(), b.data(), 64);
    zero_bytes(stream, b.data(), 64);
  });
  ASSERT_TRUE(graph);
  for (const int value : {7, 9}) {
    upload_bytes(stream, a.data(), &value, sizeof value);
    EXPECT_NE(first(stream, c), value) << "before the launch";
    graph.launch(stream);
    EXPECT_EQ(first(stream, c), value);
    EXPECT_EQ(first(stream, b), 0);
  }
  Stream other(test_device());
  other.wait(stream.record());
  zero_bytes(other, c.data(), 64);
  graph.launch(other);
  EXPECT_EQ(first(other, c), 9) << "on another stream of the device";
}

TEST_F(Graphs, WhatWasLaunchedBeforeIsDoneWhenNotingBegins) {
  Stream stream(test_device());
  const Buffer a(test_device(), 64), host(test_device(), 64, Memory::pinned);
  const int value = 5;
  upload_bytes(stream, a.data(), &value, sizeof value);
  copy_bytes(stream, host.data(), a.data(), 64);
  int seen = 0;
  Graph::capture(stream, [&] {
    std::memcpy(&seen, host.data(), sizeof seen);
    zero_bytes(stream, a.data(), 64);
  });
  EXPECT_EQ(seen, value);
}

TEST_F(Graphs, WhatWaitsOrTakesMemoryIsNoGraph) {
  Stream stream(test_device());
  const Buffer a(test_device(), 64);
  const auto refused = [&](const std::function<void()>& work) {
    try {
      Graph::capture(stream, work);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::device);
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused([&] { stream.synchronize(); }));
  EXPECT_TRUE(refused([&] { const Buffer b(test_device(), std::size_t{1} << 20); }));
  EXPECT_FALSE(refused([&] { zero_bytes(stream, a.data(), 64); })) << "the stream is as it was";
  const int value = 5;
  upload_bytes(stream, a.data(), &value, sizeof value);
  EXPECT_EQ(first(stream, a), 5);
}

TEST_F(Graphs, MemoryGivenBackMeanwhileIsNoPartOfIt) {
  Stream stream(test_device()), other(test_device());
  const Buffer a(test_device(), 64);
  auto b = std::make_unique<Buffer>(test_device(), 4096);
  zero_bytes(stream, b->data(), 4096);
  const Graph graph = Graph::capture(stream, [&] {
    b.reset();
    zero_bytes(stream, a.data(), 64);
  });
  const int value = 5;
  upload_bytes(stream, a.data(), &value, sizeof value);
  graph.launch(stream);
  EXPECT_EQ(first(stream, a), 0);
}

}  // namespace
}  // namespace mt::test
