#include "device/host_pieces.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "device/host_side.h"
#include "device/test_device.h"

namespace mt::test {
namespace {

using Numbers = std::vector<std::uint32_t>;

Numbers numbers(Stream& stream, const Buffer& b) {
  HostSide side(stream, b.data(), b.size());
  side.fetch();
  return {side.as<std::uint32_t>(), side.as<std::uint32_t>() + b.size() / 4};
}

constexpr std::size_t kCount = 1000;
// Of unequal lengths, so that more than one slot has bytes of the piece before behind its own.
constexpr std::size_t kLengths[] = {64, 1, 63, 64, 32, 64, 64, 7, 64, 64, 64, 5};

class Pieces : public testing::TestWithParam<Memory> {
 protected:
  void SetUp() override {
    if (on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  }
  std::vector<HostPiece> list(const Buffer& in, const Buffer& out, bool out_comes) const {
    std::vector<HostPiece> pieces;
    std::size_t at = 0;
    for (const std::size_t n : kLengths) {
      pieces.push_back({in.data() + at * 4, n * 4, out.data() + at * 4, n * 4, out_comes});
      at += n;
    }
    return pieces;
  }
};

// Everything around it is only launched, never waited for: what does not wait by itself is found.
TEST_P(Pieces, WorkSeesWhatWasLaunchedBeforeAndIsSeenByWhatIsLaunchedAfter) {
  for (const bool out_comes : {false, true}) {
    const Device device = test_device();
    Stream stream(device);
    const Buffer in(device, kCount * 4), out(device, kCount * 4), seen(device, kCount * 4);
    HostPieces pieces(device, 3, 256, 256, GetParam());
    EXPECT_EQ(pieces.bytes(), 3u * 512);
    Numbers want(kCount), values(kCount);
    for (std::uint32_t round = 1; round < 4; ++round) {
      std::iota(values.begin(), values.end(), round * 10000);
      upload_bytes(stream, in.data(), values.data(), kCount * 4);
      const auto all = list(in, out, out_comes);
      std::size_t called = 0, at = 0;
      pieces.run(stream, all, [&](std::size_t i, std::byte* from, std::byte* to) {
        EXPECT_EQ(i, called++);
        for (std::size_t j = 0; j < kLengths[i]; ++j) {
          std::uint32_t x = 0, y = 0;
          std::memcpy(&x, from + 4 * j, 4);
          std::memcpy(&y, to + 4 * j, 4);
          y = (out_comes ? y : 0) + 3 * x;
          std::memcpy(to + 4 * j, &y, 4);
          want[at + j] = (out_comes ? want[at + j] : 0) + 3 * values[at + j];
        }
        at += kLengths[i];
      });
      copy_bytes(stream, seen.data(), out.data(), kCount * 4);
      EXPECT_EQ(numbers(stream, seen), want) << "round " << round << (out_comes ? ", changed" : "");
      EXPECT_EQ(called, std::size(kLengths));
    }
  }
}

TEST_P(Pieces, NothingMayComeAndNothingMayBeThere) {
  Stream stream(test_device());
  const Buffer out(test_device(), 256);
  HostPieces pieces(test_device(), 2, 0, 256, GetParam());
  pieces.run(stream, {}, [](std::size_t, std::byte*, std::byte*) { FAIL(); });
  const HostPiece piece{nullptr, 0, out.data(), 256, false};
  pieces.run(stream, {&piece, 1}, [](std::size_t, std::byte*, std::byte* to) { std::memset(to, 1, 256); });
  EXPECT_EQ(numbers(stream, out), Numbers(64, 0x01010101u));
}

INSTANTIATE_TEST_SUITE_P(HostPieces, Pieces, testing::Values(Memory::pinned, Memory::host));

}  // namespace
}  // namespace mt::test
