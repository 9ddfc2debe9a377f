// The trie against a map of its keys.

#include "tokenizer/prefix_trie.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace mt::tokenizer {
namespace {

TEST(PrefixTrie, finds_what_a_map_finds) {
  std::mt19937 random(3);
  const auto word = [&random](unsigned letters, unsigned longest) {
    std::string s;
    for (auto n = 1 + random() % longest; n > 0; --n) s += static_cast<char>(random() % letters);
    return s;
  };
  for (const unsigned letters : {2u, 30u, 256u}) {
    std::map<std::string, std::int32_t> known;
    for (std::int32_t i = 0; i < 20000; ++i) known.emplace(word(letters, 8), i);
    std::vector<PrefixTrie::Key> keys(known.begin(), known.end());
    std::shuffle(keys.begin(), keys.end(), random);
    const PrefixTrie trie(keys);
    for (const auto& [key, value] : known) ASSERT_EQ(trie.find(key), value);
    for (int i = 0; i < 20000; ++i) {
      const std::string text = word(letters, 10);
      const auto exact = known.find(text);
      ASSERT_EQ(trie.find(text), exact == known.end() ? -1 : exact->second);
      PrefixTrie::Match expected;
      for (std::size_t n = 1; n <= text.size(); ++n) {
        const auto hit = known.find(text.substr(0, n));
        if (hit != known.end()) expected = {hit->second, n};
      }
      const PrefixTrie::Match match = trie.longest(text);
      ASSERT_EQ(match.value, expected.value);
      ASSERT_EQ(match.size, expected.size);
    }
  }
}

TEST(PrefixTrie, of_equal_keys_the_first_counts_and_empty_ones_do_not) {
  const PrefixTrie trie({{"a", 1}, {"", 2}, {"a", 3}});
  EXPECT_EQ(trie.find("a"), 1);
  EXPECT_EQ(trie.find(""), -1);
  EXPECT_EQ(PrefixTrie().find("a"), -1);
  EXPECT_EQ(PrefixTrie().longest("abc").size, 0u);
}

}  // namespace
}  // namespace mt::tokenizer
