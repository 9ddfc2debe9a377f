// Rows that leave and come back, with a second stream that makes copies run before the first stream's work: one that
// does not wait by itself is found.

#include "engine/host_activations.h"

#include <gtest/gtest.h>

#include "device/host_side.h"
#include "device/test_device.h"

namespace mt {
namespace {

constexpr std::size_t kBytes = 256, kRows = 4;

class Rows : public testing::Test {
 protected:
  void SetUp() override {
    if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  }
  static void fill(Stream& stream, std::byte* to, int value) {
    const std::vector<int> values(kBytes / sizeof(int), value);
    upload_bytes(stream, to, values.data(), kBytes);
  }
  static std::vector<int> numbers(Stream& stream, const std::byte* from, std::size_t bytes) {
    HostSide side(stream, const_cast<std::byte*>(from), bytes);
    side.fetch();
    return {side.as<int>(), side.as<int>() + bytes / sizeof(int)};
  }
};

TEST_F(Rows, ARowLeavesOnceTheWorkThatMakesItIsDone) {
  Stream stream(test::test_device()), other(test::test_device());
  HostActivations rows(test::test_device(), {{kBytes}}, {});
  std::byte* at = rows.begin(stream, 0).allocate(kBytes);
  fill(stream, at, 7);
  rows.leave(stream, 0, 0, 0);
  rows.begin(other, 0);
  other.synchronize();
  zero_bytes(stream, at, kBytes);
  rows.fetch(stream, 0, 0);
  rows.await(stream, 0);
  EXPECT_EQ(numbers(stream, at, kBytes), std::vector<int>(kBytes / sizeof(int), 7));
  EXPECT_EQ(rows.host_bytes(), kBytes);
  EXPECT_EQ(rows.device_bytes(), kBytes);
}

TEST_F(Rows, ARowComesOnceTheWorkThatReadsItsBufferIsDone) {
  Stream stream(test::test_device()), other(test::test_device());
  HostActivations rows(test::test_device(), {std::vector<std::size_t>(kRows, kBytes)}, {kRows * kBytes, kRows * kBytes});
  const Buffer seen(test::test_device(), 2 * kRows * kBytes);
  std::byte* at[kRows];
  for (int place = 0; place < 2; ++place)
    for (std::size_t r = 0; r < kRows; ++r) {
      at[r] = rows.begin(stream, r).allocate(kBytes);
      fill(stream, at[r], 10 * place + static_cast<int>(r) + 1);
      rows.leave(stream, 0, place, r);
    }
  // What is launched on the stream is not done before somebody waits for it; `other` waits for copies alone.
  const auto hurry = [&](std::size_t row) {
    rows.await(other, row);
    other.synchronize();
  };
  std::vector<int> want;
  for (int place = 0; place < 2; ++place) {
    rows.fetch(stream, 0, place);
    for (std::size_t r = 1; r < kRows; ++r) hurry(r);
    for (std::size_t r = kRows; r-- > 0;) {
      rows.await(stream, r);
      copy_bytes(stream, seen.data() + (static_cast<std::size_t>(place) * kRows + r) * kBytes, at[r], kBytes);
      rows.done(stream, 0, place, r);
      if (r == kRows - 1) hurry(0);
    }
    for (std::size_t r = 0; r < kRows; ++r) want.insert(want.end(), kBytes / sizeof(int), 10 * place + static_cast<int>(r) + 1);
  }
  EXPECT_EQ(numbers(stream, seen.data(), seen.size()), want);
}

}  // namespace
}  // namespace mt
