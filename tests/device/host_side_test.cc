#include "device/host_side.h"

#include <gtest/gtest.h>

#include "device/test_device.h"

namespace mt::test {
namespace {

TEST(HostSide, FetchSeesWhatWasLaunchedAndStoreIsSeenByWhatFollows) {
  for (const auto mode : {Stream::Mode::immediate, Stream::Mode::deferred}) {
    Stream s(test_device(), 1, mode);
    const Buffer a(test_device(), 64), b(test_device(), 64);
    const int three = 3;
    upload_bytes(s, a.data(), &three, sizeof three);
    {
      HostSide side(s, a.data(), 64);
      side.fetch();
      EXPECT_EQ(side.as<int>()[0], 3);
      side.as<int>()[1] = 4;
      side.store();
    }
    copy_bytes(s, b.data(), a.data(), 64);
    HostSide other(s, b.data(), 64);
    other.fetch();
    EXPECT_EQ(other.as<int>()[0], 3);
    EXPECT_EQ(other.as<int>()[1], 4);
    EXPECT_EQ(other.as<int>()[2], 0);
  }
}

TEST(HostSide, AnUploadTakesTheBytesAsTheyAreAtTheCall) {
  for (const auto mode : {Stream::Mode::immediate, Stream::Mode::deferred}) {
    Stream s(test_device(), 1, mode);
    const Buffer a(test_device(), 64);
    int value = 5;
    upload_bytes(s, a.data(), &value, sizeof value);
    value = 6;
    HostSide side(s, a.data(), 64);
    side.fetch();
    EXPECT_EQ(side.as<int>()[0], 5);
  }
}

TEST(HostSide, NothingOfTheHostsIsTouchedOfZeroBytes) {
  Stream s(test_device());
  HostSide side(s, nullptr, 0);
  side.fetch();
  side.store();
  upload_bytes(s, nullptr, nullptr, 0);
  EXPECT_EQ(side.size(), 0u);
}

}  // namespace
}  // namespace mt::test
