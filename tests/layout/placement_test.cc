// Process groups against Megatron's worked examples, and properties that hold in every layout.

#include "layout/placement.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace mt {
namespace {

std::vector<NamedGroups> every_group(const Placement& p) {
  std::vector<NamedGroups> out;
  for (const auto& name : group_names(p.spec)) out.push_back(named_groups(p, name));
  return out;
}

using Lists = std::vector<std::vector<int>>;

ParallelSpec degrees(int tp, int cp, int dp, int pp) {
  ParallelSpec s;
  s.tp = tp, s.cp = cp, s.dp = dp, s.pp = pp;
  return s;
}

Lists head(Lists groups, std::size_t n) {
  groups.resize(n);
  return groups;
}

TEST(Placement, GroupsOfSixteenRanksAreMegatrons) {
  ParallelSpec s = degrees(2, 2, 2, 2);
  s.ep = 4;
  EXPECT_EQ(s.edp(), 2);
  const Placement p = place(s);
  using A = Axis;
  EXPECT_EQ(head(groups(p, {A::tp}), 3), (Lists{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(head(groups(p, {A::cp}), 3), (Lists{{0, 2}, {1, 3}, {4, 6}}));
  EXPECT_EQ(head(groups(p, {A::dp}), 5), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}}));
  EXPECT_EQ(head(groups(p, {A::dp, A::cp}), 2), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(head(groups(p, {A::pp}), 2), (Lists{{0, 8}, {1, 9}}));
  EXPECT_EQ(head(groups(p, {A::ep}), 2), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(head(groups(p, {A::edp}), 5), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}}));
  EXPECT_EQ(groups(p, {A::tp, A::dp, A::cp}), (Lists{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
}

TEST(Placement, SixteenRanksOfTp2Dp4Pp2) {
  const Placement p = place(degrees(2, 1, 4, 2));
  EXPECT_EQ(groups(p, {Axis::tp}),
            (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups(p, {Axis::dp}), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(groups(p, {Axis::pp}),
            (Lists{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  std::map<std::string, Lists> named;
  for (auto& g : every_group(p)) named[g.name] = g.groups;
  EXPECT_EQ(named.size(), 14u);
  EXPECT_EQ(named["embedding"], named["pp"]) << "two stages: first and last are all";
  EXPECT_EQ(named["position_embedding"], (Lists{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(named["tp-pp"].front(), (std::vector{0, 1, 8, 9}));
}

// dp·cp 8 in 2 instances, as Megatron's partial data-parallel groups: runs of 4, and ranks of equal place in them.
TEST(Placement, OptimizerInstancesAreConsecutiveRunsOfTheDataParallelGroup) {
  ParallelSpec s = degrees(2, 2, 4, 1);
  EXPECT_EQ(group_names(s).size(), 14u);
  s.optimizer_instances = 2;
  EXPECT_EQ(group_names(s).size(), 18u);
  const Placement p = place(s);
  EXPECT_EQ(named_groups(p, "dp-cp").groups, (Lists{{0, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 15}}));
  EXPECT_EQ(named_groups(p, "intra-partial-dp-cp").groups, (Lists{{0, 2, 4, 6}, {8, 10, 12, 14}, {1, 3, 5, 7}, {9, 11, 13, 15}}));
  EXPECT_EQ(named_groups(p, "inter-partial-dp-cp").groups,
            (Lists{{0, 8}, {2, 10}, {4, 12}, {6, 14}, {1, 9}, {3, 11}, {5, 13}, {7, 15}}));
  EXPECT_EQ(named_groups(p, "intra-partial-edp").groups.size(), 2 * named_groups(p, "edp").groups.size());
}

TEST(Placement, TheEmbeddingGroupOfLongPipelinesIsFirstAndLast) {
  for (const auto& g : every_group(place(degrees(1, 1, 1, 4)))) {
    if (g.name == "embedding") {
    EXPECT_EQ(g.groups, (Lists{{0, 3}}));
  }
    if (g.name == "position_embedding") {
      EXPECT_EQ(g.groups, (Lists{{0}}));
    }
  }
}

TEST(Placement, RankIsTheMixedRadixNumberOfItsCoordinate) {
  ParallelSpec s = degrees(2, 3, 2, 2);
  s.etp = 3, s.ep = 2;
  const Placement p = place(s);
  ASSERT_EQ(p.coordinates.size(), 24u);
  for (int r = 0; r < 24; ++r) {
    const auto& c = p.coordinates[static_cast<std::size_t>(r)];
    EXPECT_EQ(r, c.tp + 2 * (c.cp + 3 * (c.dp + 2 * c.pp)));
    EXPECT_EQ(r, c.etp + 3 * (c.ep + 2 * (c.edp + 2 * c.pp)));
    EXPECT_EQ(p.rank_of(c), r);
  }
}

TEST(Placement, TheOrderStringDecidesWhichAxisVariesFastest) {
  ParallelSpec s = degrees(2, 1, 2, 2);
  s.etp = 2;
  s.order = "tp-cp-ep-pp-dp";
  EXPECT_EQ(groups(place(s), {Axis::pp}), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(place(s), {Axis::dp}), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  s.order = "dp-pp-tp-cp-ep";
  EXPECT_EQ(groups(place(s), {Axis::dp}), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(place(s), {Axis::tp}), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(Placement, GroupsOfAnyAxesPartitionTheRanks) {
  ParallelSpec s = degrees(4, 1, 3, 2);
  s.ep = 6, s.etp = 2;
  const Placement p = place(s);
  for (const auto& named : every_group(p)) {
    std::multiset<int> seen;
    for (const auto& g : named.groups) {
      EXPECT_TRUE(std::is_sorted(g.begin(), g.end()));
      seen.insert(g.begin(), g.end());
    }
    if (named.name == "embedding" || named.name == "position_embedding") continue;  // of some stages alone
    ASSERT_EQ(seen.size(), 24u) << named.name;
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 24u) << named.name;
  }
  for (int r = 0; r < 24; ++r) {
    const auto g = group_of(p, {Axis::dp, Axis::cp}, r);
    EXPECT_EQ(std::count(g.begin(), g.end(), r), 1);
    for (int other : g) {
      const auto &a = p.coordinates[static_cast<std::size_t>(r)], &b = p.coordinates[static_cast<std::size_t>(other)];
      EXPECT_TRUE(a.tp == b.tp && a.pp == b.pp);
    }
  }
}

TEST(Placement, KeyValueGroupsAreTheTpRanksThatHoldTheSameHeads) {
  const Placement p = place(degrees(8, 1, 2, 1));
  EXPECT_EQ(kv_group(p, 2, 0), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(kv_group(p, 2, 13), (std::vector{12, 13, 14, 15}));
  EXPECT_EQ(kv_group(p, 1, 3), (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kv_group(p, 8, 3), (std::vector{3}));
  EXPECT_EQ(kv_group(p, 16, 9), (std::vector{9}));
}

}  // namespace
}  // namespace mt
