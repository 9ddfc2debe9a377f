// Merging against its definition: at every turn search the whole word for the lowest rank.

#include "tokenizer/bpe.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt::tokenizer {
namespace {

std::vector<std::int32_t> by_definition(const std::vector<Merge>& merges, std::vector<std::int32_t> s) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> rank;
  for (std::size_t i = 0; i < merges.size(); ++i) rank[{merges[i].left, merges[i].right}] = i;
  for (;;) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < s.size(); ++i) {
      const auto found = rank.find({s[i], s[i + 1]});
      if (found != rank.end() && found->second < best) {
        best = found->second;
        place = i;
      }
    }
    if (best == merges.size()) return s;
    s[place] = merges[best].result;
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(MergeTable, merges_as_the_definition_says_short_and_long) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<Merge> merges;
    for (std::int32_t made = 4; made < 40; ++made) {
      merges.push_back({static_cast<std::int32_t>(random() % static_cast<unsigned>(made)),
                        static_cast<std::int32_t>(random() % static_cast<unsigned>(made)), made});
    }
    std::vector<std::int32_t> word(random() % 200);
    for (std::int32_t& s : word) s = static_cast<std::int32_t>(random() % 4);
    std::vector<std::int32_t> merged = word;
    MergeTable(merges).merge(merged);
    ASSERT_EQ(merged, by_definition(merges, word)) << "round " << round;
  }
}

TEST(MergeTable, a_megabyte_of_one_letter_is_no_trap) {
  std::vector<Merge> merges;
  for (std::int32_t i = 0; i < 10; ++i) merges.push_back({i, i, i + 1});
  std::vector<std::int32_t> word(1 << 20, 0);
  MergeTable(merges).merge(word);
  EXPECT_EQ(word, std::vector<std::int32_t>(1 << 10, 10));
}

TEST(MergeTable, of_two_merges_of_a_pair_the_last_wins) {
  std::vector<std::int32_t> word{0, 1};
  MergeTable(std::vector<Merge>{{0, 1, 2}, {0, 1, 3}}).merge(word);
  EXPECT_EQ(word, std::vector<std::int32_t>{3});
}

TEST(MergeTable, refuses_ids_it_cannot_pack) { EXPECT_THROW(MergeTable(std::vector<Merge>{{1 << 21, 1, 2}}), Error); }

}  // namespace
}  // namespace mt::tokenizer
