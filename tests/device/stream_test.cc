#include "device/stream.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/buffer.h"

namespace mt {

TEST(Stream, RunsWorkAtOnceByDefault) {
  Stream s;
  int x = 0;
  s.launch([&] { x = 3; });
  EXPECT_EQ(x, 3);
  EXPECT_TRUE(s.record().done());
}

TEST(Stream, DeferredWorkRunsInOrderAtSynchronizeAndNoSooner) {
  Stream s({}, 1, Stream::Mode::deferred);
  std::string order;
  s.launch([&] { order += 'a'; });
  s.launch([&] { order += 'b'; });
  EXPECT_EQ(order, "");
  s.synchronize();
  EXPECT_EQ(order, "ab");
}

TEST(Stream, AnEventRunsTheWorkBeforeItAndNothingAfter) {
  Stream s({}, 1, Stream::Mode::deferred);
  std::string order;
  s.launch([&] { order += 'a'; });
  const Event e = s.record();
  s.launch([&] { order += 'b'; });
  EXPECT_FALSE(e.done());
  e.synchronize();
  EXPECT_TRUE(e.done());
  EXPECT_EQ(order, "a");
}

TEST(Stream, WaitingMakesAnotherDeferredStreamRunFirst) {
  Stream producer({}, 1, Stream::Mode::deferred), consumer({}, 1, Stream::Mode::deferred);
  std::string order;
  producer.launch([&] { order += 'p'; });
  const Event made = producer.record();
  producer.launch([&] { order += 'q'; });
  consumer.wait(made);
  consumer.launch([&] { order += 'c'; });
  EXPECT_EQ(order, "");
  consumer.synchronize();
  EXPECT_EQ(order, "pc");
  producer.synchronize();
  EXPECT_EQ(order, "pcq");
}

TEST(Stream, WithoutTheWaitTheConsumerGoesFirst) {
  Stream producer({}, 1, Stream::Mode::deferred), consumer({}, 1, Stream::Mode::deferred);
  std::string order;
  producer.launch([&] { order += 'p'; });
  consumer.launch([&] { order += 'c'; });
  consumer.synchronize();
  producer.synchronize();
  EXPECT_EQ(order, "cp");
}

TEST(Stream, AnImmediateStreamThatWaitsRunsDeferredWork) {
  Stream deferred({}, 1, Stream::Mode::deferred), now;
  int x = 0;
  deferred.launch([&] { x = 1; });
  now.wait(deferred.record());
  EXPECT_EQ(x, 1);
}

TEST(Stream, DestructionFinishesQueuedWork) {
  int x = 0;
  {
    Stream s({}, 1, Stream::Mode::deferred);
    s.launch([&] { x = 1; });
  }
  EXPECT_EQ(x, 1);
}

TEST(Stream, CopiesAndZeroesBytesInOrder) {
  Stream s({}, 1, Stream::Mode::deferred);
  char a[4] = {1, 2, 3, 4}, b[4] = {9, 9, 9, 9};
  copy_bytes(s, b, a, 4);
  zero_bytes(s, a, 4);
  EXPECT_EQ(b[0], 9);
  s.synchronize();
  EXPECT_EQ(b[3], 4);
  EXPECT_EQ(a[3], 0);
}

TEST(Stream, PollCallsTheHook) {
  Stream s;
  int polls = 0;
  s.poll();
  s.set_poll([&] { ++polls; });
  s.poll();
  EXPECT_EQ(polls, 1);
}

TEST(Stream, RefusesADeviceThisBuildLacks) {
  EXPECT_THROW(Stream({DeviceKind::cuda, 99}), Error);
  EXPECT_THROW(Buffer({DeviceKind::cuda, 99}, 8), Error);
}

}  // namespace mt
