// The whole path of a byte-level BPE: added tokens, normal form, pieces, merges.

#include "tokenizer/byte_level_bpe.h"

#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt::tokenizer {
namespace {

using Ids = std::vector<Id>;

// 256 bytes, then merges by their two byte strings.
ByteLevelBpeParts parts_with(const std::vector<std::pair<std::string, std::string>>& merges, const std::string& regex) {
  ByteLevelBpeParts parts;
  for (Id b = 0; b < 256; ++b) parts.tokens.add(std::string(1, static_cast<char>(b)), b);
  Id next = 256;
  for (const auto& [left, right] : merges) parts.tokens.add(left + right, next++);
  parts.tokens.seal();
  for (const auto& [left, right] : merges) {
    parts.merges.push_back({*parts.tokens.find(left), *parts.tokens.find(right), *parts.tokens.find(left + right)});
  }
  parts.pattern = SplitPattern::from_regex(regex);
  return parts;
}

const std::vector<std::pair<std::string, std::string>> kMerges = {{"a", "b"}, {" ", "ab"},      {"ab", "c"},
                                                                  {"c", "c"}, {"\xC3", "\xA9"}, {"1", "2"}};

TEST(ByteCharacters, map_every_byte_to_a_character_and_back) {
  EXPECT_EQ(byte_to_char('A'), std::uint32_t{'A'});
  EXPECT_EQ(byte_to_char(' '), 0x120u);
  EXPECT_EQ(byte_to_char('\n'), 0x10Au);
  EXPECT_EQ(byte_to_char(0xAD), 0x143u);
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    EXPECT_EQ(bytes_of_token(token_of_bytes(byte)), byte);
  }
  EXPECT_EQ(bytes_of_token("a b中"), "a b中");  // characters that stand for no byte: taken as it is
}

TEST(ByteLevelBpe, hand_scanner_and_regex_engine_lead_to_the_same_ids) {
  const ByteLevelBpe by_hand(parts_with(kMerges, std::string(kGpt2Pattern)));
  const ByteLevelBpe by_regex(parts_with(kMerges, "(?:" + std::string(kGpt2Pattern) + ")"));
  const std::vector<std::string> kParts = {"a", "b", "c", " ", "1", "2", "é", "'s", "\n"};
  std::mt19937 random(5);
  EncodeScratch one, two;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (auto i = random() % 400; i > 0; --i) text += kParts[random() % 9];
    Ids a, b;
    by_hand.encode(text, one, a);
    by_regex.encode(text, two, b);
    ASSERT_EQ(a, b) << text;
    ASSERT_EQ(by_hand.decode(a), text);
  }
}

TEST(ByteLevelBpe, long_words_pass_the_cache_by) {
  const ByteLevelBpe tokenizer(parts_with(kMerges, std::string(kGpt2Pattern)));
  EncodeScratch scratch;
  for (const std::size_t n : {14u, 15u, 16u, 17u, 63u, 64u, 65u, 5000u}) {
    const std::string word(n, 'c');
    for (int again = 0; again < 2; ++again) {
      Ids ids, expected(n / 2, 259);
      if (n % 2 == 1) expected.push_back('c');
      tokenizer.encode(word, scratch, ids);
      EXPECT_EQ(ids, expected) << n;
    }
  }
}

TEST(ByteLevelBpe, new_words_that_come_again_at_once_get_the_ids_they_have_alone) {
  const ByteLevelBpe tokenizer(parts_with(kMerges, std::string(kGpt2Pattern)));
  std::mt19937 random(7);
  EncodeScratch kept;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> words;
    for (int i = 0; i < 100; ++i) {
      std::string& word = words.emplace_back(" ");
      for (auto n = 1 + random() % (i % 10 == 0 ? 40 : 12); n > 0; --n) word += static_cast<char>('a' + random() % 3);
    }
    std::string text;
    Ids expected, ids;
    for (int i = 0; i < 3000; ++i) {
      const std::string& word = words[random() % words.size()];
      text += word;
      const Ids alone = tokenizer.encode(word);
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    tokenizer.encode(text, kept, ids);
    ASSERT_EQ(ids, expected) << round;
  }
}

TEST(ByteLevelBpe, words_behind_a_text_that_was_refused_get_their_ids) {
  ByteLevelBpeParts parts = parts_with(kMerges, std::string(kGpt2Pattern));
  TokenTable no_z;
  for (Id id = 0; id < parts.tokens.size(); ++id) {
    if (id != 'z') no_z.add(parts.tokens.token(id), id);
  }
  no_z.seal();
  parts.tokens = std::move(no_z);
  const ByteLevelBpe tokenizer(std::move(parts));
  EncodeScratch scratch;
  Ids ids;
  EXPECT_THROW(tokenizer.encode(" ab ccc z ab", scratch, ids), Error);
  EXPECT_THROW(tokenizer.encode(" ba z", scratch, ids), Error);
  ids.clear();
  tokenizer.encode(" ccc ba ab ccc", scratch, ids);
  EXPECT_EQ(ids, tokenizer.encode(" ccc ba ab ccc"));
}

TEST(ByteLevelBpe, ignore_merges_takes_whole_pieces_but_never_added_tokens) {
  ByteLevelBpeParts parts = parts_with(kMerges, std::string(kGpt2Pattern));
  parts.tokens.add("whole", 300);
  parts.tokens.add("control", 301);
  parts.tokens.seal();
  parts.added_only = {301};
  parts.ignore_merges = true;
  const ByteLevelBpe tokenizer(std::move(parts));
  EXPECT_EQ(tokenizer.encode("whole"), Ids{300});
  EXPECT_EQ(tokenizer.encode("control").size(), 7u);
}

TEST(ByteLevelBpe, normalises_and_adds_a_space_where_asked) {
  ByteLevelBpeParts parts = parts_with(kMerges, std::string(kGpt2Pattern));
  parts.nfc = true;
  parts.add_prefix_space = true;
  const ByteLevelBpe tokenizer(std::move(parts));
  EXPECT_EQ(tokenizer.encode("e\u0301"), (Ids{' ', 260}));
  EXPECT_EQ(tokenizer.encode("ab"), Ids{257});
  EXPECT_EQ(tokenizer.encode(" ab"), Ids{257});
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(TokenTable, refuses_double_ids_and_knows_its_gaps) {
  TokenTable table;
  table.add("a", 3);
  EXPECT_THROW(table.add("b", 3), Error);
  EXPECT_THROW(table.add("b", -1), Error);
  table.seal();
  EXPECT_EQ(table.size(), 4);
  EXPECT_FALSE(table.has(2));
  EXPECT_EQ(table.find("a"), 3);
  EXPECT_FALSE(table.find("b"));
  std::string out;
  EXPECT_THROW(table.decode(Ids{2}, out), Error);
  EXPECT_THROW(table.decode(Ids{4}, out), Error);
}

}  // namespace
}  // namespace mt::tokenizer
