// Buffers, streams and events on the device under test, where that is an accelerator.
#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/backend.h"
#include "device/stream.h"
#include "device/test_device.h"

namespace mt::test {
namespace {

class Accelerator : public testing::Test {
 protected:
  void SetUp() override {
    if (on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  }
  Device device_ = test_device();
};

TEST_F(Accelerator, HasANameAndMemory) {
  const DeviceBackend& backend = cuda_backend();
  ASSERT_GE(backend.count(), 1);
  EXPECT_EQ(backend.why_none(), "");
  EXPECT_NE(backend.name(0), "");
  const DeviceMemory m = backend.memory(0);
  EXPECT_GT(m.total, 0u);
  EXPECT_LE(m.free, m.total);
}

TEST_F(Accelerator, ADeviceThatIsNotThereIsNamedWithWhereToLook) {
  try {
    Stream s({DeviceKind::cuda, 99});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::device);
    EXPECT_NE(std::string(e.what()).find("cuda:99"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("CUDA_VISIBLE_DEVICES"), std::string::npos) << e.what();
  }
}

TEST_F(Accelerator, MemoryThatIsShortIsSaidWithWhatThisDeviceHoldsAlone) {
  const Buffer here(device_, 1000), pinned(device_, 3000, Memory::pinned), cpu({}, 70000);
  for (const Memory memory : {Memory::device, Memory::pinned}) {
    const bool pins = memory == Memory::pinned;
    const std::size_t held = live_buffer_bytes(memory);
    try {
      Buffer b(device_, std::size_t{1} << 60, memory);
      FAIL();
    } catch (const Error& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find(pins ? "no pinned memory of the host for 1152921504606846976 bytes" : "no memory for 1152921504606846976 bytes"),
                std::string::npos) << what;
      if (pins) EXPECT_NE(what.find(" " + std::to_string(held) + " of it"), std::string::npos) << what;
      else EXPECT_NE(what.find(" 1000 of it"), std::string::npos) << what;
      EXPECT_NE(what.find(pins ? "offload less" : "smaller micro-batch"), std::string::npos) << what;
    }
  }
}

TEST_F(Accelerator, BuffersStartAsZerosAlsoWhenTheMemoryWasUsedBefore) {
  const Buffer host(device_, 4096, Memory::pinned);
  Stream s(device_);
  const std::byte* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    const Buffer b(device_, 4096);
    if (round == 0) first = b.data();
    else EXPECT_EQ(b.data(), first) << "memory given back is used again";
    std::memset(host.data(), 1, 4096);
    copy_bytes(s, host.data(), b.data(), 4096);
    s.synchronize();
    for (std::size_t i = 0; i < 4096; ++i) ASSERT_EQ(host.data()[i], std::byte{0}) << "round " << round;
    std::memset(host.data(), 2, 4096);
    copy_bytes(s, b.data(), host.data(), 4096);
    s.synchronize();
  }
}

TEST_F(Accelerator, MemoryGivenBackIsNotTakenWhileEarlierWorkIsPending) {
  const Buffer in(device_, 4096, Memory::pinned), out(device_, 4096, Memory::pinned);
  std::memset(in.data(), 7, 4096);
  Stream s(device_);
  {
    const Buffer b(device_, 4096);
    copy_bytes(s, b.data(), in.data(), 4096);
    copy_bytes(s, out.data(), b.data(), 4096);
  }
  // Zeroing the new one must not come between the two copies.
  const Buffer other(device_, 4096);
  s.synchronize();
  for (std::size_t i = 0; i < 4096; ++i) ASSERT_EQ(out.data()[i], std::byte{7});
}

TEST_F(Accelerator, AWaitOrdersTwoStreams) {
  const Buffer host(device_, 1 << 20, Memory::pinned), a(device_, 1 << 20), b(device_, 1 << 20);
  std::memset(host.data(), 5, 1 << 20);
  Stream producer(device_), consumer(device_);
  copy_bytes(producer, a.data(), host.data(), 1 << 20);
  consumer.wait(producer.record());
  copy_bytes(consumer, b.data(), a.data(), 1 << 20);
  const Event done = consumer.record();
  Stream back(device_);
  back.wait(done);
  zero_bytes(back, host.data(), 1 << 20);
  copy_bytes(back, host.data(), b.data(), 1 << 20);
  back.synchronize();
  EXPECT_TRUE(done.done());
  for (std::size_t i = 0; i < 1 << 20; i += 4095) ASSERT_EQ(host.data()[i], std::byte{5});
}

TEST_F(Accelerator, StreamsOfTheHostWaitForItsEventsAndItForTheirs) {
  const Buffer host(device_, 64, Memory::pinned), there(device_, 64);
  std::memset(host.data(), 9, 64);
  Stream cuda(device_), now, later({}, 1, Stream::Mode::deferred);
  copy_bytes(cuda, there.data(), host.data(), 64);
  zero_bytes(cuda, host.data(), 64);
  copy_bytes(cuda, host.data(), there.data(), 64);
  now.wait(cuda.record());
  EXPECT_EQ(host.data()[63], std::byte{9});

  later.launch([&] { std::memset(host.data(), 4, 64); });
  cuda.wait(later.record());
  copy_bytes(cuda, there.data(), host.data(), 64);
  std::byte seen{};
  zero_bytes(cuda, host.data(), 64);
  copy_bytes(cuda, host.data(), there.data(), 64);
  later.wait(cuda.record());
  later.launch([&] { seen = host.data()[1]; });
  later.synchronize();
  EXPECT_EQ(seen, std::byte{4});
}

TEST_F(Accelerator, TooLargeIsADeviceErrorThatNamesTheSize) {
  for (const Memory memory : {Memory::device, Memory::pinned}) {
    try {
      Buffer b(device_, std::size_t{1} << 50, memory);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::device);
      EXPECT_NE(e.message().find("1125899906842624"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace mt::test
