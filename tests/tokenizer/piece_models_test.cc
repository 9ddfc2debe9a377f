// Character BPE and unigram against their definitions, by brute force.

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/character_bpe.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_piece.h"

namespace mt::tokenizer {
namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::string> kLetters = {"a", "b", "c", "▁", "é", "中"};

std::string random_text(std::mt19937& random, std::size_t longest) {
  std::string text;
  for (auto n = random() % longest; n > 0; --n) text += kLetters[random() % kLetters.size()];
  return text;
}

// Tokens made by random merges of tokens before them.
CharacterBpeParts random_parts(std::mt19937& random, bool byte_fallback) {
  CharacterBpeParts parts;
  std::vector<std::string> tokens(kLetters.begin(), kLetters.end() - 1);  // one letter has no token
  parts.tokens.add("<unk>", 0);
  std::int32_t next = 1;
  std::map<std::string, std::int32_t> ids;
  for (const std::string& token : tokens) ids[token] = next, parts.tokens.add(token, next++);
  for (int b = 0; byte_fallback && b < 256; ++b) parts.tokens.add(fmt::format("<0x{:02X}>", b), next++);
  for (int i = 0; i < 30; ++i) {
    const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
    const std::string made = left + right;
    if (ids.count(made) == 0) {
      ids[made] = next;
      tokens.push_back(made);
      parts.tokens.add(made, next++);
    }
    parts.merges.push_back({ids[left], ids[right], ids[made]});
  }
  parts.tokens.seal();
  parts.unknown = "<unk>";
  parts.byte_fallback = byte_fallback;
  return parts;
}

Ids ids_of(const CharacterBpe& bpe, std::string_view piece) {
  WordsOfSymbols first, ids;
  bpe.encode({&piece, 1}, first, ids);
  return ids.symbols;
}

TEST(CharacterBpe, pieces_cut_where_no_merge_crosses_give_the_ids_of_the_whole) {
  std::mt19937 random(11);
  std::size_t cuts = 0;
  for (int round = 0; round < 40; ++round) {
    const CharacterBpe bpe(random_parts(random, round % 2 == 0));
    for (int i = 0; i < 50; ++i) {
      const std::string text = random_text(random, 200);
      if (text.empty()) continue;
      const Ids whole = ids_of(bpe, text);
      Ids parts;
      std::vector<TextSpan> pieces{{0, static_cast<std::uint32_t>(text.size())}};
      bpe.cut(text, pieces);
      cuts += pieces.size() - 1;
      for (const TextSpan& p : pieces) {
        const Ids some = ids_of(bpe, std::string_view(text).substr(p.begin, p.end - p.begin));
        parts.insert(parts.end(), some.begin(), some.end());
      }
      ASSERT_EQ(parts, whole) << text;
    }
  }
  EXPECT_GT(cuts, 1000u);
}

TEST(CharacterBpe, joins_unknown_characters_only_where_asked_and_then_cuts_nothing) {
  std::mt19937 random(1);
  for (const bool fuse : {false, true}) {
    CharacterBpeParts parts = random_parts(random, false);
    parts.fuse_unknown = fuse;
    const CharacterBpe bpe(std::move(parts));
    EXPECT_EQ(ids_of(bpe, "中中"), fuse ? Ids{0} : (Ids{0, 0}));
    std::vector<TextSpan> pieces{{0, 6}};
    bpe.cut("中中", pieces);
    EXPECT_EQ(pieces.size(), fuse ? 1u : 2u);
  }
}

TEST(CharacterBpe, over_spaces_gives_the_ids_of_the_model_over_blocks) {
  std::mt19937 random(23);
  for (int round = 0; round < 20; ++round) {
    const CharacterBpeParts parts = random_parts(random, true);
    const auto spaced = CharacterBpe::with_spaces_for(parts, "▁");
    ASSERT_TRUE(spaced);
    const CharacterBpe blocks(parts), spaces(*spaced);
    for (int i = 0; i < 50; ++i) {
      const std::string text = random_text(random, 60);
      std::string plain;
      for (std::size_t k = 0; k < text.size(); ++k) {
        const bool block = text.compare(k, 3, "▁") == 0;
        plain += block ? ' ' : text[k];
        if (block) k += 2;
      }
      ASSERT_EQ(ids_of(blocks, text), ids_of(spaces, plain)) << text;
    }
  }
  CharacterBpeParts holds_space = random_parts(random, true);
  holds_space.tokens.add("a b", 5000);
  holds_space.tokens.seal();
  EXPECT_FALSE(CharacterBpe::with_spaces_for(holds_space, "▁"));
  EXPECT_FALSE(CharacterBpe::with_spaces_for(random_parts(random, true), "_"));
}

TEST(CharacterBpe, without_an_unknown_token_an_unknown_character_is_an_error) {
  CharacterBpeParts parts;
  parts.tokens.add("a", 0);
  parts.tokens.seal();
  EXPECT_THROW(ids_of(CharacterBpe(parts), "ab"), Error);
  parts.unknown = "<unk>";
  EXPECT_THROW(CharacterBpe{parts}, Error);
}

// The best score of every cut of `text` from `begin` on.
double best_by_trying(const UnigramParts& parts, const std::string& text, std::size_t begin) {
  if (begin == text.size()) return 0;
  double best = -1e300;
  for (const UnigramParts::Piece& piece : parts.pieces) {
    if (piece.text.empty() || text.compare(begin, piece.text.size(), piece.text) != 0) continue;
    best = std::max(best, piece.score + best_by_trying(parts, text, begin + piece.text.size()));
  }
  return best;
}

TEST(Unigram, finds_the_best_of_all_cuts) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> score(-12, -1);
  for (int round = 0; round < 30; ++round) {
    UnigramParts parts;
    parts.pieces.push_back({"", 0});
    parts.unknown = 0;
    std::map<std::string, bool> seen;
    for (std::size_t i = 0; i < 20; ++i) {
      const std::string text = i < kLetters.size() ? kLetters[i] : random_text(random, 5);
      if (text.empty() || seen[text]) continue;
      seen[text] = true;
      parts.pieces.push_back({text, score(random)});
    }
    const Unigram unigram(parts);
    UnigramScratch scratch;
    for (int i = 0; i < 30; ++i) {
      const std::string text = random_text(random, 10);
      Ids ids;
      unigram.encode(text, scratch, ids);
      std::string back;
      double sum = 0;
      for (const std::int32_t id : ids) {
        back += parts.pieces[static_cast<std::size_t>(id)].text;
        sum += parts.pieces[static_cast<std::size_t>(id)].score;
      }
      ASSERT_EQ(back, text);
      ASSERT_NEAR(sum, best_by_trying(parts, text, 0), 1e-9) << text;
    }
  }
}

TEST(Unigram, unknown_stretches_become_bytes_or_one_unknown) {
  UnigramParts parts;
  parts.pieces = {{"", 0}, {"a", -1}};
  parts.unknown = 0;
  parts.min_score = -1;
  for (int b = 0; b < 256; ++b) parts.byte_ids[b] = 1000 + b;
  UnigramScratch scratch;
  Ids ids;
  Unigram(parts).encode("aéé", scratch, ids);
  EXPECT_EQ(ids, (Ids{1, 0}));
  parts.byte_fallback = true;
  ids.clear();
  Unigram(parts).encode("éa", scratch, ids);
  EXPECT_EQ(ids, (Ids{1000 + 0xC3, 1000 + 0xA9, 1}));
  parts.byte_fallback = false;
  parts.unknown = -1;
  EXPECT_THROW(Unigram(parts).encode("é", scratch, ids), Error);
  parts.unknown = 2;
  EXPECT_THROW(Unigram{parts}, Error);
}

TEST(Unigram, a_long_text_takes_linear_time_and_keeps_its_ids) {
  UnigramParts parts;
  parts.pieces = {{"", 0}, {"a", -2}, {"aa", -3}, {"aaaa", -3.5}};
  parts.unknown = 0;
  parts.min_score = -3.5;
  UnigramScratch scratch;
  Ids ids;
  Unigram(parts).encode(std::string(1 << 20, 'a'), scratch, ids);
  EXPECT_EQ(ids.size(), std::size_t{1} << 18);
}

// Scores with many near ties, and a text whose score passes the place where the library begins anew.
TEST(Unigram, of_sentencepiece_gives_word_by_word_what_it_gives_of_the_whole_text) {
  std::mt19937 random(21);
  const std::vector<std::string> letters = {"a", "b", "c", "é", "中"};  // the last has no token
  const auto some_letters = [&](std::size_t most) {
    std::string text;
    for (auto n = 1 + random() % most; n > 0; --n) text += letters[random() % letters.size()];
    return text;
  };
  for (int round = 0; round < 8; ++round) {
    UnigramParts parts;
    parts.rounding = UnigramRounding::sentencepiece;
    parts.unknown = 0;
    parts.pieces = {{"", 0}, {"▁", -3}, {"▁▁", -4.5}, {"a", -3}, {"b", -3.25}, {"c", -4}, {"é", -5}};
    if (round == 7) parts.pieces.push_back({"bc", 0, true});
    std::map<std::string, bool> seen;
    for (int i = 0; i < 60; ++i) {
      std::string text = (random() % 2 == 0 ? "▁" : "") + some_letters(4);
      if (text.find("中") != std::string::npos || seen[text] || text.size() < 2 || text == "é") continue;
      seen[text] = true;
      parts.pieces.push_back({text, -3 - 0.001 * static_cast<double>(random() % 4000)});
    }
    for (UnigramParts::Piece& piece : parts.pieces) {
      piece.score = static_cast<double>(static_cast<float>(piece.score));
      parts.min_score = std::min(parts.min_score, piece.score);
    }
    const Unigram unigram(parts);
    ASSERT_TRUE(unigram.words_stand_apart());
    std::string text;
    for (int w = 0; w < 20000; ++w) text += (random() % 9 == 0 ? "▁▁" : "▁") + some_letters(w % 100 == 0 ? 120 : 8);
    UnigramScratch scratch;
    WordCache words;
    LongWordCache long_words;
    for (const std::size_t skip : {std::size_t{0}, std::size_t{3}}) {
      Ids whole, by_words, again;
      unigram.encode(text.substr(skip), scratch, whole);
      unigram.encode_words(text.substr(skip), {words, long_words, scratch}, by_words);
      unigram.encode_words(text.substr(skip), {words, long_words, scratch}, again);
      ASSERT_EQ(by_words, whole) << "round " << round;
      ASSERT_EQ(again, whole) << "round " << round;
    }
    parts.pieces.push_back({"a▁b", -1});
    EXPECT_FALSE(Unigram(parts).words_stand_apart());
  }
}

TEST(WordPiece, spells_greedily_or_not_at_all) {
  TokenTable tokens;
  std::int32_t next = 0;
  for (const char* token : {"[UNK]", "un", "unaff", "##aff", "##able", "##a", "a"}) tokens.add(token, next++);
  tokens.seal();
  const WordPiece model(tokens, {"[UNK]", "##", 9});
  const auto ids_of = [&model](const std::string& word) {
    Ids ids;
    model.encode(word, ids);
    return ids;
  };
  EXPECT_EQ(ids_of("unaffable"), (Ids{2, 4}));
  EXPECT_EQ(ids_of("una"), (Ids{1, 5}));
  EXPECT_EQ(ids_of("unab"), Ids{0});        // "##b" is no token: the whole word is unknown
  EXPECT_EQ(ids_of("unaffablea"), Ids{0});  // ten characters
  const WordPiece without(tokens, {"<none>", "##", 9});
  Ids ids;
  EXPECT_THROW(without.encode("x", ids), Error);
}

TEST(WordLevel, knows_whole_words) {
  TokenTable tokens;
  tokens.add("<unk>", 0);
  tokens.add("cat", 1);
  tokens.seal();
  Ids ids;
  const WordLevel model(tokens, "<unk>");
  model.encode("cat", ids);
  model.encode("cats", ids);
  EXPECT_EQ(ids, (Ids{1, 0}));
  EXPECT_THROW(WordLevel(tokens, "[UNK]").encode("dog", ids), Error);
}

}  // namespace
}  // namespace mt::tokenizer
