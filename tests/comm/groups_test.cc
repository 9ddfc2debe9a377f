// Groups of any rank list: unordered, overlapping, nested, of one rank, made again under the same name.

#include <algorithm>
#include <cstdint>

#include "comm/ranks.h"

namespace mt::test {
namespace {

class GroupLists : public OnRanks {};

// Sum of 2^world_rank over the group, and who sits where.
void expect_members(Communicator& group, const std::vector<int>& ranks, int me) {
  Stream s;
  ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
  EXPECT_EQ(ranks[static_cast<std::size_t>(group.rank())], me);
  EXPECT_EQ(group.world_ranks(), ranks);
  std::int64_t bit = std::int64_t{1} << me, want = 0;
  for (int r : ranks) want += std::int64_t{1} << r;
  group.all_reduce(s, View(&bit, DType::i64, {1}), Reduce::sum).wait_host();
  EXPECT_EQ(bit, want);
  std::int32_t mine = me;
  std::vector<std::int32_t> all(ranks.size());
  group.all_gather(s, View(&mine, DType::i32, {1}), View(all.data(), DType::i32, {group.size()})).wait_host();
  EXPECT_TRUE(std::equal(all.begin(), all.end(), ranks.begin()));
}

void make_and_expect(Communicator& parent, const std::vector<int>& ranks, int me, const std::string& name) {
  if (std::find(ranks.begin(), ranks.end(), me) == ranks.end()) return;
  const auto group = parent.make_group(ranks, name);
  EXPECT_EQ(group->name(), name);
  expect_members(*group, ranks, me);
}

TEST_P(GroupLists, KeepTheGivenOrder) {
  run([&](Communicator& world) {
    std::vector<int> down;
    for (int r = world.size() - 1; r >= 0; --r) down.push_back(r);
    make_and_expect(world, down, world.rank(), "reversed");
  });
}

TEST_P(GroupLists, MayOverlap) {
  run([&](Communicator& world) {
    const int n = world.size(), me = world.rank();
    std::vector<std::unique_ptr<Communicator>> mine;
    std::vector<std::vector<int>> lists;
    for (int a = 0; a + 1 < n; ++a) {
      const std::vector<int> pair = {a + 1, a};
      if (me != a && me != a + 1) continue;
      mine.push_back(world.make_group(pair, "pair"));
      lists.push_back(pair);
    }
    // Both groups live and carry traffic at once, in another order on each rank.
    for (std::size_t i = 0; i < mine.size(); ++i) expect_members(*mine[i], lists[i], me);
  });
}

TEST_P(GroupLists, NestAndSplitTheWorld) {
  run([&](Communicator& world) {
    const int n = world.size(), me = world.rank();
    std::vector<int> mine;
    for (int r = 0; r < n; ++r)
      if (r % 2 == me % 2) mine.push_back(r);
    const auto half = world.make_group(mine, "half");
    expect_members(*half, mine, me);
    std::vector<int> inner(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>((mine.size() + 1) / 2));
    make_and_expect(*half, inner, me, "inner");
    expect_members(*half, mine, me);
  });
}

TEST_P(GroupLists, OfOneRankMoveWhatOthersHaveInFlight) {
  run([&](Communicator& world) {
    Stream s;
    const auto alone = world.make_group({world.rank()}, "alone");
    expect_members(*alone, {world.rank()}, world.rank());
    std::int64_t x = 1;
    Handle h = world.all_reduce(s, View(&x, DType::i64, {1}), Reduce::sum);
    alone->progress();
    h.wait_host();
    EXPECT_EQ(x, world.size());
  });
}

TEST_P(GroupLists, MadeAgainUnderTheSameNameAreTheirOwn) {
  run([&](Communicator& world) {
    Stream s;
    const auto a = world.make_group(world.world_ranks(), "again");
    const auto b = world.make_group(world.world_ranks(), "again");
    std::int64_t x = 1, y = 10;
    Handle first = a->all_reduce(s, View(&x, DType::i64, {1}), Reduce::sum);
    Handle second = b->all_reduce(s, View(&y, DType::i64, {1}), Reduce::sum);
    second.wait_host();
    first.wait_host();
    EXPECT_EQ(x, world.size());
    EXPECT_EQ(y, 10 * world.size());
  });
}

TEST_P(GroupLists, WaitingInOneGroupMovesTheOthers) {
  // Even ranks wait for the first group first, odd ones for the second: neither may starve the other.
  run([&](Communicator& world) {
    Stream s;
    const auto a = world.make_group(world.world_ranks(), "a");
    const auto b = world.make_group(world.world_ranks(), "b");
    std::vector<float> x(200000, 1), y(200000, 2);
    Handle first = a->all_reduce(s, View(x.data(), DType::f32, {200000}), Reduce::sum);
    Handle second = b->all_reduce(s, View(y.data(), DType::f32, {200000}), Reduce::sum);
    if (world.rank() % 2 == 0) {
      first.wait_host();
      second.wait_host();
    } else {
      second.wait_host();
      first.wait_host();
    }
    EXPECT_EQ(x[199999], static_cast<float>(world.size()));
    EXPECT_EQ(y[0], static_cast<float>(2 * world.size()));
  });
}

INSTANTIATE_TEST_SUITE_P(Comm, GroupLists, testing::ValuesIn(backends()), backend_text);

}  // namespace
}  // namespace mt::test
