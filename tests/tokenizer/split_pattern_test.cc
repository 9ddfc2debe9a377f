// Hand scanners against the patterns themselves, run by PCRE2 on random text.

#include "tokenizer/split_pattern.h"

#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/pre_tokenizer.h"

namespace mt::tokenizer {
namespace {

constexpr const char* kTail = "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

std::string llama3_regex(const std::string& digits) {
  return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits + "| ?[^\\s\\p{L}\\p{N}]+" + kTail;
}

std::vector<std::string> pieces(std::string_view text, const std::vector<std::uint32_t>& lengths) {
  std::vector<std::string> all;
  std::size_t at = 0;
  for (const std::uint32_t n : lengths) {
    all.emplace_back(text.substr(at, n));
    at += n;
  }
  EXPECT_EQ(at, text.size());
  return all;
}

std::vector<std::string> split(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::uint32_t> lengths;
  pattern.split(text, lengths);
  return pieces(text, lengths);
}

// Pieces with a line each, so that a difference shows.
std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += Json(piece).dump() + "\n";
  return all;
}

// Text of `count` parts that the patterns care about; `ascii` of 100 parts are ASCII.
std::string random_text(std::mt19937& random, int count, int ascii) {
  static const std::vector<std::string> plain = {"a",  "b",    "Z",    "s",   "t",    "re",   "ve", "ll", "m",    "d",
                                                 "'s", "'S",   "'re",  "'LL", "'",    "''",   "1",  "23", "4567", " ",
                                                 " ",  " ",    "  ",   "\n",  "\r\n", "\t",   "\v", ".",  "!",    "--",
                                                 "_",  "word", " the", ", ",  "\x7f", "\x01", "@",  "[",  "`",    "{"};
  static const std::vector<std::string> other = {"É", "ǅ", "ʰ", "ſt", "/", "é",      "ß",      "中",     "文", "\u0669", "½", "\u00a0",
                                                 "\u3000", "\u2028", "\u0085", "é",  "—",      "😀", "ſ",
                                                 "'ſ",     "\u0301", "\u200b", "Ⅷ",  "я", "カ", "・", "゛", "の", "²", "¼", "‹", "»", "\u3099", "\u0e33",
                                                 "Привет", "ЖУК", "ё", "Ѡ", "ѡ", "Қ", "қ", "Ą", "ą", "ΣΑ", "σ", "漢字", "㐀", "한글",
                                                 "ि", "हिन्दी", "«", "…", "、", "。", "／", "Ａ", "ａ", "\u0483", "Ⴀ", "ა"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::vector<std::string>& from = static_cast<int>(random() % 100) < ascii ? plain : other;
    text += from[random() % from.size()];
  }
  return text;
}

void compare_with_pcre(const std::string& regex, PatternKind kind) {
  const SplitPattern pattern = SplitPattern::from_regex(regex);
  ASSERT_EQ(pattern.kind(), kind);
  const PcrePattern reference(regex);
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const int ascii = round % 3 == 0 ? 100 : round % 3 == 1 ? 95 : 50;
    const std::string text = random_text(random, static_cast<int>(random() % 150), ascii);
    std::vector<std::uint32_t> expected;
    reference.split(text, expected);
    ASSERT_EQ(split(pattern, text), pieces(text, expected)) << "round " << round << " text: " << text;
  }
}

TEST(SplitPattern, gpt2_scanner_cuts_where_the_regex_cuts) {
  compare_with_pcre(std::string(kGpt2Pattern), PatternKind::gpt2);
}
TEST(SplitPattern, llama3_scanner_cuts_where_the_regex_cuts) {
  compare_with_pcre(llama3_regex("\\p{N}{1,3}"), PatternKind::llama3);
}
TEST(SplitPattern, qwen_scanner_cuts_where_the_regex_cuts) {
  compare_with_pcre(llama3_regex("\\p{N}"), PatternKind::qwen);
}

TEST(SplitPattern, o200k_and_tekken_scanners_cut_where_the_regexes_cut) {
  compare_with_pcre(std::string(kO200kPattern), PatternKind::o200k);
  compare_with_pcre(std::string(kTekkenPattern), PatternKind::tekken);
}

const std::vector<std::string> kDeepseek = {
    "\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};

TEST(SplitPattern, deepseek_scanner_cuts_where_its_three_regexes_cut_one_after_the_other) {
  std::vector<SplitPattern> parts;
  for (const std::string& regex : kDeepseek) parts.push_back(SplitPattern::from_regex(regex));
  const SplitPattern pattern = SplitPattern::sequence(std::move(parts));
  ASSERT_EQ(pattern.kind(), PatternKind::deepseek);
  const PcrePattern one(kDeepseek[0]), two(kDeepseek[1]), three(kDeepseek[2]);
  const auto refine = [](const PcrePattern& by, const std::vector<std::string>& coarse) {
    std::vector<std::string> fine;
    for (const std::string& text : coarse) {
      std::vector<std::uint32_t> lengths;
      by.split(text, lengths);
      const auto some = pieces(text, lengths);
      fine.insert(fine.end(), some.begin(), some.end());
    }
    return fine;
  };
  std::mt19937 random(8);
  for (int round = 0; round < 3000; ++round) {
    const int ascii = round % 3 == 0 ? 100 : round % 3 == 1 ? 95 : 50;
    const std::string text = random_text(random, static_cast<int>(random() % 150), ascii);
    const auto expected = text.empty() ? std::vector<std::string>{} : refine(three, refine(two, refine(one, {text})));
    ASSERT_EQ(joined(split(pattern, text)), joined(expected)) << "round " << round;
  }
}

TEST(SplitPattern, falcon_scanner_cuts_where_its_four_pre_tokenizers_cut) {
  const PreTokenizer reference(parse_json(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Punctuation", "behavior": "Contiguous"},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
      {"type": "Digits", "individual_digits": false},
      {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": false}]})", "here"));
  std::mt19937 random(9);
  CutText cut;
  for (int round = 0; round < 3000; ++round) {
    const int ascii = round % 3 == 0 ? 100 : round % 3 == 1 ? 95 : 50;
    const std::string text = random_text(random, static_cast<int>(random() % 150), ascii);
    reference.apply(text, true, cut);
    std::vector<std::string> expected;
    for (const TextSpan& piece : cut.pieces) {
      expected.push_back(bytes_of_token(cut.text.substr(piece.begin, piece.end - piece.begin)));
    }
    ASSERT_EQ(split(SplitPattern::falcon(), text), expected) << "round " << round << " text: " << text;
  }
}

TEST(SplitPattern, classes_are_those_of_unicode_16_whatever_the_library_knows) {
  const std::string letter = "\xF0\x90\xB5\x90";  // U+10D50, a letter since Unicode 16
  EXPECT_EQ(split(SplitPattern::from_regex("\\p{L}+"), "a" + letter + "1").size(), 2u);
  EXPECT_EQ(split(SplitPattern::from_regex("[\\p{Lu}_]+"), "_" + letter + "1").size(), 2u);
  EXPECT_EQ(split(SplitPattern::from_regex("[^\\p{L}]+"), "1" + letter + "2").size(), 3u);
  EXPECT_EQ(split(SplitPattern::from_regex("\\s"), "a\u180Eb\u3000c").size(), 3u);
  EXPECT_EQ(split(SplitPattern::from_regex("\\h"), "xay").size(), 3u);  // a hexadecimal digit in this dialect
}

TEST(SplitPattern, sets_inside_sets_are_joined_or_refused) {
  EXPECT_EQ(split(SplitPattern::from_regex("[^(\\s|[.,])]+"), "ab.c, d)"),
            (std::vector<std::string>{"ab", ".", "c", ", ", "d", ")"}));
  EXPECT_EQ(split(SplitPattern::from_regex("[]a]+"), "x]a]y"), (std::vector<std::string>{"x", "]a]", "y"}));
  EXPECT_THROW(SplitPattern::from_regex("[a[^b]]"), Error);
  EXPECT_THROW(SplitPattern::from_regex("[a-z&&[aeiou]]"), Error);
}

TEST(SplitPattern, long_runs_cross_blocks_whole) {
  const SplitPattern gpt2 = SplitPattern::from_regex(std::string(kGpt2Pattern));
  for (const std::size_t n : {1u, 62u, 63u, 64u, 65u, 127u, 128u, 1000u}) {
    const std::string run(n, 'a'), spaces(n, ' ');
    EXPECT_EQ(split(gpt2, run), std::vector<std::string>{run});
    EXPECT_EQ(split(gpt2, spaces), std::vector<std::string>{spaces});
    EXPECT_EQ(split(gpt2, spaces + " " + run), (std::vector<std::string>{spaces, " " + run}));
    EXPECT_EQ(split(gpt2, run + std::string(70, '1')), (std::vector<std::string>{run, std::string(70, '1')}));
  }
}

TEST(SplitPattern, a_sequence_refines_the_pieces_of_the_one_before) {
  std::vector<SplitPattern> parts;
  parts.push_back(SplitPattern::from_regex("\\p{N}{1,2}"));
  parts.push_back(SplitPattern::from_regex("[a-c]+"));
  const SplitPattern both = SplitPattern::sequence(std::move(parts));
  EXPECT_EQ(split(both, "abx123cz"), (std::vector<std::string>{"ab", "x", "12", "3", "c", "z"}));
}

TEST(SplitPattern, a_broken_regex_is_an_error_with_its_place) {
  try {
    SplitPattern::from_regex("ab(c");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::data);
    EXPECT_NE(e.message().find("place 4"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mt::tokenizer
