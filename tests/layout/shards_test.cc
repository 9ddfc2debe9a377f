// Shards of all data-parallel ranks are the parameters, each element once, and their boxes are where they say.

#include "layout/shards.h"

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

using Elements = std::vector<int>;

TEST(Shards, OfAllRanksAreEachParameterOnce) {
  for (const bool llama : {false, true})
    for (int tp : {1, 2, 4})
      for (int ranks : {1, 2, 3, 5, 8}) {
        const auto specs = param_specs(test::small_model({llama, 8, 2, 61}), test::layout(tp, 1, tp > 1), {});
        std::vector<Elements> seen;
        for (const auto& s : specs) seen.emplace_back(static_cast<std::size_t>(s.elements()));
        for (int rank = 0; rank < ranks; ++rank) {
          const ShardPlan plan = plan_shards(specs, {1, ranks, rank});
          std::int64_t at = 0;
          for (const Bucket& b : plan.buckets) {
            EXPECT_EQ(b.begin, at) << "buckets lie back to back";
            EXPECT_EQ(b.size() % (64 * ranks), 0);
            at = b.end;
            for (int p = b.first_param; p < b.last_param; ++p) {
              EXPECT_EQ(specs[static_cast<std::size_t>(p)].unit, b.unit);
              EXPECT_EQ(plan.offset[static_cast<std::size_t>(p)] % 64, 0);
            }
          }
          EXPECT_EQ(plan.total, at);
          for (const OwnedRange& o : plan.shards) {
            ASSERT_LT(o.begin, o.end);
            for (auto e = o.begin; e < o.end; ++e) ++seen[static_cast<std::size_t>(o.param)][static_cast<std::size_t>(e)];
            // The range lies in this rank's part of its bucket.
            const Bucket& b = plan.bucket_of_param(o.param);
            const auto from = plan.offset[static_cast<std::size_t>(o.param)] + o.begin;
            EXPECT_GE(from, b.own_begin());
            EXPECT_LE(from + o.size(), b.own_begin() + b.own_size());
          }
          EXPECT_LE(plan.state, plan.total / ranks) << "no rank holds more than its share";
        }
        for (std::size_t p = 0; p < specs.size(); ++p)
          EXPECT_EQ(seen[p], Elements(static_cast<std::size_t>(specs[p].elements()), 1)) << specs[p].name << " of " << ranks;
      }
}

TEST(Shards, WithoutShardingEveryRankOwnsAll) {
  const auto specs = param_specs(test::small_model(), {}, {});
  const ShardPlan plan = plan_shards(specs, {0, 4, 3});
  ASSERT_EQ(plan.shards.size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(plan.shards[i].begin, 0);
    EXPECT_EQ(plan.shards[i].end, specs[i].elements());
    EXPECT_EQ(plan.shards[i].state % 64, 0);
  }
}

// Every element of a parameter, by the boxes of two ranges that meet at any place, is the element its piece says.
TEST(Shards, BoxesOfARangeAreTheLogicalElementsAtTheirPlaces) {
  for (const auto& spec : param_specs(test::small_model({true, 8, 2, 61}), test::layout(4, 1), {}))
    for (std::int64_t cut = 0; cut <= spec.elements(); cut += 1 + spec.elements() / 7)
      for (const auto& piece : spec.pieces) {
        // What the piece puts at each flat element: its logical element, −1 elsewhere.
        std::vector<std::int64_t> want(static_cast<std::size_t>(spec.elements()), -1), got = want;
        std::vector<std::int64_t> logical;
        if (!piece.box.empty())
          for_each_run(whole(piece.shape), piece.box, [&](std::int64_t g, std::int64_t, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i) logical.push_back(g + i);
          });
        if (!piece.local.empty())
          for_each_run(whole(spec.shape), piece.local, [&](std::int64_t place, std::int64_t inner, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
              want[static_cast<std::size_t>(place + i)] = logical[static_cast<std::size_t>(inner + i)];
          });
        for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, {cut, spec.elements()}})
          for (const auto& [box, at] : boxes_in_range(spec, piece, begin, end)) {
            ASSERT_TRUE(inside(box, piece.shape));
            ASSERT_TRUE(at >= begin && at + box.size() <= end) << spec.name;
            for_each_run(whole(piece.shape), box, [&, first = at](std::int64_t g, std::int64_t inner, std::int64_t n) {
              for (std::int64_t i = 0; i < n; ++i) got[static_cast<std::size_t>(first + inner + i)] = g + i;
            });
          }
        ASSERT_EQ(got, want) << piece.name << " cut at " << cut;
      }
}

}  // namespace
}  // namespace mt
