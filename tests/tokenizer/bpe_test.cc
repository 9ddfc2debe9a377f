// Merging against its definition: at every turn search the whole word for the lowest rank.

#include "tokenizer/bpe.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt::tokenizer {
namespace {

// `order`: ranks in place of the places, or none.
std::vector<std::int32_t> by_definition(const std::vector<Merge>& merges, std::vector<std::int32_t> s,
                                        const std::vector<std::uint32_t>& order = {}) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> rank;
  const auto value = [&](std::size_t place) { return order.empty() ? place : order[place]; };
  for (std::size_t i = 0; i < merges.size(); ++i) rank[{merges[i].left, merges[i].right}] = i;
  for (;;) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < s.size(); ++i) {
      const auto found = rank.find({s[i], s[i + 1]});
      if (found != rank.end() && (best == merges.size() || value(found->second) < value(best))) {
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

TEST(MergeTable, words_side_by_side_are_merged_as_each_alone) {
  std::mt19937 random(12);
  for (int round = 0; round < 60; ++round) {
    std::vector<Merge> merges;
    for (std::int32_t made = 4; made < 60; ++made) {
      merges.push_back({static_cast<std::int32_t>(random() % static_cast<unsigned>(made)),
                        static_cast<std::int32_t>(random() % static_cast<unsigned>(made)), made - static_cast<std::int32_t>(random() % 2)});
    }
    std::vector<std::uint32_t> order;  // of all kinds: none, equal ones, equal ones of different results
    for (const Merge& m : merges) {
      if (round % 3 == 1) order.push_back(static_cast<std::uint32_t>(100 + m.result));
      if (round % 3 == 2) order.push_back(static_cast<std::uint32_t>(100 - m.result / 4));
    }
    MergeTable table(merges, order);
    std::int32_t bytes[256] = {};
    for (int b = 0; b < 256; ++b) bytes[b] = b % 4;
    table.set_bytes(bytes);
    WordsOfSymbols words, merged, of_bytes;
    std::vector<std::string> texts;
    for (int w = 0; w < 40; ++w) {
      const std::size_t size = w % 10 == 0 ? 60 + random() % 10 : w == 25 ? 700 : random() % 20;
      for (std::size_t i = 0; i < size; ++i) words.symbols.push_back(static_cast<std::int32_t>(random() % 4));
      words.end_word();
      const auto word = words.word(words.ends.size() - 1);
      std::string& text = texts.emplace_back();
      for (const std::int32_t s : word) text.push_back(static_cast<char>(s + 4 * static_cast<int>(random() % 60)));
    }
    table.merge_all(words, merged);
    const std::vector<std::string_view> pieces(texts.begin(), texts.end());
    table.merge_bytes_all(pieces, of_bytes);
    ASSERT_EQ(merged.ends.size(), words.ends.size());
    ASSERT_EQ(of_bytes.ends.size(), words.ends.size());
    for (std::size_t k = 0; k < words.ends.size(); ++k) {
      const auto first = words.word(k), all = merged.word(k), bytes_too = of_bytes.word(k);
      const std::vector<std::int32_t> expected = by_definition(merges, {first.begin(), first.end()}, order);
      EXPECT_EQ(std::vector(all.begin(), all.end()), expected) << "round " << round << " word " << k;
      EXPECT_EQ(std::vector(bytes_too.begin(), bytes_too.end()), expected) << "round " << round << " word " << k;
    }
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

TEST(MergeTable, refuses_ids_it_cannot_pack) {
  EXPECT_THROW(MergeTable(std::vector<Merge>{{1 << 21, 1, 2}}), Error);
  EXPECT_THROW(MergeTable(std::vector<Merge>{{0, 1, 1 << 21}}), Error) << "what a merge makes is a symbol, too";
}

}  // namespace
}  // namespace mt::tokenizer
