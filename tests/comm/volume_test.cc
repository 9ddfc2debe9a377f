// Predicted bytes, and what the recording wrapper writes down.

#include "comm/volume.h"

#include "comm/ranks.h"

namespace mt::test {
namespace {

using namespace mt::comm;

TEST(Volume, ShardsCoverEverythingOnceAndDifferByOneAtMost) {
  for (int n : {1, 2, 3, 4, 7, 8})
    for (std::int64_t total : {0L, 1L, 5L, 8L, 1000003L, 1L << 40}) {
      std::int64_t at = 0;
      for (int r = 0; r < n; ++r) {
        const Shard s = shard_of(total, r, n);
        EXPECT_EQ(s.begin, at);
        EXPECT_GE(s.size(), total / n);
        EXPECT_LE(s.size(), total / n + 1);
        at = s.end;
      }
      EXPECT_EQ(at, total);
    }
}

TEST(Volume, AllReduceSendsTwiceTheShareOfTheOthers) {
  EXPECT_EQ(all_reduce_bytes_sent(1 << 20, 4, 0, 8), 2 * (4 << 20) * 7 / 8);
  EXPECT_EQ(all_reduce_bytes_sent(1 << 20, 2, 3, 4), 2 * (2 << 20) * 3 / 4);
  EXPECT_EQ(all_reduce_bytes_sent(1 << 20, 4, 0, 1), 0);
  EXPECT_EQ(all_reduce_bytes_sent(512, 4, 1, 4), 3 * 2048);    // one exchange of everything
  EXPECT_EQ(all_reduce_bytes_sent(516, 4, 1, 4), 2 * 2064 * 3 / 4);
  EXPECT_EQ(parts_bytes_sent(800, 8), 700);
}

class Recorded : public OnRanks {};

TEST_P(Recorded, RowsHoldTheFormulas) {
  const int n = ranks();
  const auto count = [&](const std::vector<TrafficRow>& rows, const std::string& group, const std::string& operation) {
    for (const auto& row : rows)
      if (row.group == group && row.operation == operation) return row;
    return TrafficRow{};
  };
  run([&](Communicator& world) {
    TrafficLog log;
    // The wrapper owns what it wraps, so it gets a group of its own.
    const auto c = recording(world.make_group(world.world_ranks(), "dp"), log);
    const auto sub = c->make_group(world.world_ranks(), "tp");
    Stream s;
    std::vector<float> x(static_cast<std::size_t>(1000 * n)), y(x.size());
    const View all(x.data(), DType::f32, {1000 * n}), other(y.data(), DType::f32, {1000 * n});
    const std::int64_t bytes = 4000 * n;
    for (int i = 0; i < 3; ++i) c->all_reduce(s, all, Reduce::sum).wait_host();
    c->reduce_scatter(s, all, other.rows(0, 1000), Reduce::sum).wait_host();
    sub->all_gather(s, all.rows(0, 1000), other).wait_host();
    sub->all_to_all(s, all, other).wait_host();
    sub->broadcast(s, all, n - 1).wait_host();
    if (n > 1 && world.rank() < 2) {
      Handle h = world.rank() == 0 ? c->send(s, all, 1) : c->recv(s, all, 0);
      h.wait_host();
    }
    const auto rows = log.rows();
    if (n == 1) {
      EXPECT_TRUE(rows.empty());
      return;
    }
    EXPECT_EQ(count(rows, "dp", "all_reduce").calls, 3);
    EXPECT_EQ(count(rows, "dp", "all_reduce").bytes_sent, 3 * 2 * bytes / n * (n - 1));
    EXPECT_EQ(count(rows, "dp", "reduce_scatter").bytes_sent, bytes / n * (n - 1));
    EXPECT_EQ(count(rows, "tp", "all_gather").bytes_sent, bytes / n * (n - 1));
    EXPECT_EQ(count(rows, "tp", "all_to_all").bytes_sent, bytes / n * (n - 1));
    EXPECT_EQ(count(rows, "tp", "broadcast").bytes_sent, world.rank() == n - 1 ? bytes * (n - 1) : 0);
    EXPECT_EQ(count(rows, "dp", "send").bytes_sent, world.rank() == 0 ? bytes : 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Comm, Recorded, testing::ValuesIn(backends()), backend_text);

}  // namespace
}  // namespace mt::test
