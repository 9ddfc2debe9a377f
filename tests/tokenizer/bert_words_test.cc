// BERT's words in one pass against its normalizer and its pre-tokenizer, one after the other.

#include "tokenizer/bert_words.h"

#include <random>

#include <gtest/gtest.h>

#include "base/json.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {
namespace {

std::vector<std::string> words_of(const CutText& cut) {
  std::vector<std::string> words;
  for (const TextSpan& piece : cut.pieces) words.emplace_back(cut.text.substr(piece.begin, piece.end - piece.begin));
  return words;
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {"Hello", "the", " ", " ", "  ", "\t", "\n", "\v", "\f", "\x01", "\x7f", ".",
      "!", "don't", "A", "B2", "x_y", "É", "e\u0301", "İ", "ß", "Ǆ", "中文", "\uF900", "\u2EBF0", "かが", "が", "한글", "я", "Й",
      "\u0085", "\u00a0", "\u00ad", "\u200b", "\u200d", "\ufeff", "\ufffd", "—", "«", "😀", "\u0903", "\u093f", "\u0bbe",
      "\u3000", "\u2028", "ﬁ", "²", "Σ", "ς", "\u0345", "\u1e9b", "\u302e", "\U0001D15E"};
  std::string text;
  for (auto n = random() % 120; n > 0; --n) {
    if (random() % 50 == 0) {
      const std::uint32_t c = static_cast<std::uint32_t>(random()) % 0x30000;
      append_utf8(c >= 0xD800 && c < 0xE000 ? 0x41 : c, text);
      continue;
    }
    text += random() % 3 == 0 ? parts[random() % parts.size()] : parts[random() % 18];
  }
  return text;
}

TEST(BertWords, are_those_of_the_two_steps) {
  std::mt19937 random(21);
  const PreTokenizer pre_tokenizer(Json{{"type", "BertPreTokenizer"}});
  int done = 0;
  for (int flags = 0; flags < 16; ++flags) {
    const Normalizer normalizer(Json{{"type", "BertNormalizer"},
                                     {"clean_text", (flags & 1) != 0},
                                     {"handle_chinese_chars", (flags & 2) != 0},
                                     {"strip_accents", (flags & 4) != 0},
                                     {"lowercase", (flags & 8) != 0}});
    const BertWords words(*normalizer.only_step());
    for (int round = 0; round < 400; ++round) {
      const std::string text = random_text(random);
      std::string buffer, other;
      CutText expected, got;
      pre_tokenizer.apply(normalizer.apply(text, buffer, other), true, expected);
      if (!words.apply(text, got)) continue;
      ++done;
      ASSERT_EQ(words_of(got), words_of(expected)) << "flags " << flags << " text: " << text;
    }
  }
  EXPECT_GT(done, 4000);
}

}  // namespace
}  // namespace mt::tokenizer
