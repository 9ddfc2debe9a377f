// Collectives and messages of numbers that lie on the device under test.

#include "comm/staged.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "comm/device_ranks.h"
#include "tensor/tensor.h"

namespace mt::test {
namespace {

// n floats of this rank on its device: 100·rank, 100·rank + 1, …
struct Numbers {
  Tensor tensor;
  Numbers(Stream& stream, int rank, std::int64_t n) : tensor(stream.device(), DType::f32, {n}) {
    std::vector<float> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), static_cast<float>(100 * rank));
    set_elements<float>(stream, tensor, values);
  }
};

TEST(Staged, EveryCollectiveBringsNumbersOfTheDeviceThereAndBack) {
  on_device_ranks(3, [](Communicator& world) {
    Stream s(rank_device(world));
    const int r = world.rank();
    const Numbers mine(s, r, 6);
    const Tensor all(s.device(), DType::f32, {18}), part(s.device(), DType::f32, {2}), turned(s.device(), DType::f32, {6});
    world.all_gather(s, mine.tensor, all).wait(s);
    world.reduce_scatter(s, mine.tensor, part, Reduce::sum).wait(s);
    world.all_to_all(s, mine.tensor, turned).wait(s);
    world.all_reduce(s, mine.tensor, Reduce::max).wait(s);
    std::vector<float> want;
    for (int q = 0; q < 3; ++q)
      for (int i = 0; i < 6; ++i) want.push_back(static_cast<float>(100 * q + i));
    EXPECT_EQ(elements(s, all.view()), want);
    EXPECT_EQ(elements(s, part.view()), (std::vector<float>{300.0f + 6 * static_cast<float>(r), 303.0f + 6 * static_cast<float>(r)}));
    for (int q = 0; q < 3; ++q)
      EXPECT_EQ(elements(s, turned.view())[static_cast<std::size_t>(2 * q)], static_cast<float>(100 * q + 2 * r));
    EXPECT_EQ(elements(s, mine.tensor.view())[5], 205.0f);
  });
}

TEST(Staged, WorkLaunchedBeforeIsInWhatIsSentAndWhatFollowsSeesTheResult) {
  on_device_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    const Numbers from(s, world.rank(), 1000);
    const Tensor x(s.device(), DType::f32, {1000}), y(s.device(), DType::f32, {1000});
    copy_bytes(s, x.view().data, from.tensor.view().data, x.bytes());
    Handle sum = world.all_reduce(s, x, Reduce::sum);
    sum.wait(s);
    copy_bytes(s, y.view().data, x.view().data, x.bytes());
    zero_bytes(s, x.view().data, x.bytes());
    EXPECT_EQ(elements(s, y.view())[999], 100.0f + 2 * 999);
  });
}

TEST(Staged, MessagesAndBroadcastsArriveWhetherWaitedForByHostOrAskedFor) {
  on_device_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    const int r = world.rank();
    const Numbers mine(s, r, 5);
    const Tensor theirs(s.device(), DType::f32, {5});
    Handle sent = world.send(s, mine.tensor, 1 - r), arrives = world.recv(s, theirs, 1 - r);
    while (!arrives.test()) world.progress();
    sent.wait_host();
    EXPECT_EQ(elements(s, theirs.view())[4], static_cast<float>(100 * (1 - r) + 4));
    world.broadcast(s, mine.tensor, 1).wait_host();
    EXPECT_EQ(elements(s, mine.tensor.view())[0], 100.0f);
  });
}

TEST(Staged, GroupsAreStagedTooAndThoseOfOneRankCopyOnTheDevice) {
  on_device_ranks(3, [](Communicator& world) {
    Stream s(rank_device(world));
    const int r = world.rank();
    const Numbers mine(s, r, 4);
    const Tensor out(s.device(), DType::f32, {4});
    const auto alone = world.make_group({r}, "alone");
    alone->all_gather(s, mine.tensor, out).wait(s);
    EXPECT_EQ(elements(s, out.view())[3], static_cast<float>(100 * r + 3));
    if (r == 1) return;
    const auto pair = world.make_group({0, 2}, "pair");
    pair->all_reduce(s, mine.tensor, Reduce::sum).wait(s);
    EXPECT_EQ(elements(s, mine.tensor.view())[3], 206.0f);
  });
}

TEST(Staged, NumbersOfTheHostMayBeGivenToo) {
  on_device_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    std::int64_t count = world.rank() + 1;
    world.all_reduce(s, View(&count, DType::i64, {1}), Reduce::sum).wait_host();
    EXPECT_EQ(count, 3);
  });
}

}  // namespace
}  // namespace mt::test
