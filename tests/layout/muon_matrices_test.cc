#include "layout/muon_matrices.h"

#include <set>

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

std::vector<ParamSpec> table(int tp, int tp_rank, int kv_heads = 2) {
  ParallelSpec p;
  p.tp = tp;
  Coordinate at;
  at.tp = tp_rank;
  return param_specs(test::small_model({true, 8, kv_heads, 61}), p, at);
}

std::multiset<std::pair<std::int64_t, std::int64_t>> shapes(const std::vector<MuonMatrix>& matrices) {
  std::multiset<std::pair<std::int64_t, std::int64_t>> out;
  for (const auto& m : matrices) out.insert({m.rows, m.cols});
  return out;
}

// Hidden 32, 8 heads of 4, 2 of keys, ffn 48, two layers.
TEST(MuonMatrices, AreTheLogicalOnesHoweverTheyAreCut) {
  std::multiset<std::pair<std::int64_t, std::int64_t>> want, fused;
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& s : {std::pair{32, 32}, {8, 32}, {8, 32}, {32, 32}, {96, 32}, {32, 48}}) want.insert(s);
    for (const auto& s : {std::pair{48, 32}, {32, 32}, {96, 32}, {32, 48}}) fused.insert(s);
  }
  for (int tp : {1, 2, 4, 8})
    for (int rank : {0, tp - 1}) {
      EXPECT_EQ(shapes(muon_matrices(table(tp, rank), {true, true, tp, 1})), want) << tp;
      EXPECT_EQ(shapes(muon_matrices(table(tp, rank), {true, false, tp, 1})), fused) << tp;
    }
}

TEST(MuonMatrices, AreARanksOwnRowsAndColumnsBlockwise) {
  const auto got = shapes(muon_matrices(table(4, 1), {false, true, 4, 1}));
  std::multiset<std::pair<std::int64_t, std::int64_t>> want;
  for (int layer = 0; layer < 2; ++layer)
    for (const auto& s : {std::pair{8, 32}, {4, 32}, {4, 32}, {32, 8}, {24, 32}, {32, 12}}) want.insert(s);
  EXPECT_EQ(got, want);
}

TEST(MuonMatrices, HaveTheSameOwnersOnAllRanksAndShareTheWork) {
  const MuonSharing sharing{true, true, 2, 3};
  const auto first = muon_matrices(table(2, 0), sharing), second = muon_matrices(table(2, 1), sharing);
  std::vector<double> load(6);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].owner, second[i].owner);
    EXPECT_EQ(first[i].end - first[i].begin, second[i].end - second[i].begin);
    ASSERT_LT(first[i].owner, 6);
    load[static_cast<std::size_t>(first[i].owner)] += static_cast<double>(first[i].size());
  }
  for (double l : load) EXPECT_GT(l, 0);
}

}  // namespace
}  // namespace mt
