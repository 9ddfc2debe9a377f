// Text without a break is no trap: sixteen times as long costs about sixteen times as much, for every kind of tokenizer.
//
// Processor time of the thread, the least of three; a quadratic step would make it 256 times. The bound of 64 leaves room
// for n log n, for what no longer fits a cache and for a busy machine.

#include <ctime>
#include <random>

#include <gtest/gtest.h>

#include "base/json.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/sentencepiece_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

double thread_s() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double encode_s(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    EncodeScratch scratch;
    std::vector<Id> ids;
    const double start = thread_s();
    tokenizer.encode(text, scratch, ids);
    best = std::min(best, thread_s() - start);
  }
  return best;
}

std::string letters(std::size_t size) {
  std::mt19937 random(5);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

void expect_linear(const Tokenizer& tokenizer, const std::string& name, std::size_t kibibytes = 8) {
  const std::size_t small_size = kibibytes << 10, large_size = 16 * small_size;
  using Make = std::string (*)(std::size_t);
  const std::pair<const char*, Make> lines[] = {
      {"one letter", [](std::size_t n) { return std::string(n, 'a'); }},
      {"random letters", letters},
      {"newlines", [](std::size_t n) { return std::string(n, '\n'); }},
      {"spaces", [](std::size_t n) { return std::string(n, ' '); }},
      {"signs", [](std::size_t n) { return std::string(n, '-'); }},
      {"Han", [](std::size_t n) {
         std::string text;
         while (text.size() < n) text += "中文";
         return text;
       }}};
  for (const auto& [what, make] : lines) {
    const double small = std::max(encode_s(tokenizer, make(small_size)), 1e-4);
    EXPECT_LT(encode_s(tokenizer, make(large_size)) / small, 64) << name << " on " << what;
  }
}

// Merges of doubled letters and of all pairs of small letters, up to words of sixteen.
Json bpe_model(bool bytes) {
  Json vocab = Json::object(), merges = Json::array();
  int next = 0;
  if (bytes) {
    for (int b = 0; b < 256; ++b) vocab[token_of_bytes(std::string(1, static_cast<char>(b)))] = next++;
  } else {
    vocab["<unk>"] = next++;
    for (char c = ' '; c < 127; ++c) vocab[std::string(1, c)] = next++;
    for (const char* c : {"\n", "中", "文"}) vocab[c] = next++;
  }
  const auto merge = [&](const std::string& a, const std::string& b) {
    merges.push_back(Json::array({a, b}));
    vocab[a + b] = next++;
  };
  for (const std::string& c : bytes ? std::vector<std::string>{"a", "-", token_of_bytes(" "), token_of_bytes("\n")}
                                   : std::vector<std::string>{"a", "-", " ", "\n"}) {
    for (std::string run = c; run.size() < 16 * c.size(); run += run) merge(run, run);
  }
  for (char a = 'b'; a <= 'z'; ++a) {
    for (char b = 'b'; b <= 'z'; ++b) merge(std::string(1, a), std::string(1, b));
  }
  return Json{{"type", "BPE"}, {"unk_token", bytes ? Json() : Json("<unk>")}, {"fuse_unk", true},
              {"vocab", vocab}, {"merges", merges}};
}

std::unique_ptr<Tokenizer> load(const Json& file) {
  const ScratchDirectory dir;
  TokenizerSpec spec;
  spec.model = dir.file("tokenizer.json", file.dump());
  return make_tokenizer(spec);
}

TEST(LinearTime, byte_level_bpe_of_every_split_pattern) {
  const auto split = [](std::string_view regex) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  const std::string own = "[a-z]+|\\s+(?!\\S)|\\s+|.";  // for PCRE2
  for (const std::string_view regex : {kGpt2Pattern, kLlama3Pattern, kO200kPattern, kTekkenPattern, std::string_view(own)}) {
    const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    const Json cut{{"type", "Sequence"}, {"pretokenizers", {split(regex), bytes}}};
    expect_linear(*load({{"normalizer", {{"type", "NFC"}}}, {"pre_tokenizer", cut}, {"model", bpe_model(true)}}),
                  std::string(regex));
  }
}

TEST(LinearTime, up_to_a_mebibyte_without_a_break) {
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  expect_linear(*load({{"pre_tokenizer", bytes}, {"model", bpe_model(true)}}), "bytes", 64);
  const Json spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}};
  expect_linear(*load({{"normalizer", spaces}, {"model", bpe_model(false)}}), "characters", 64);
}

TEST(LinearTime, character_bpe_cut_at_safe_places_or_not) {
  const Json spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}};
  expect_linear(*load({{"normalizer", spaces}, {"model", bpe_model(false)}}), "in words of one piece");
  Json model = bpe_model(false);
  model["ignore_merges"] = true;
  expect_linear(*load({{"model", model}}), "whole");
}

TEST(LinearTime, words_and_unigrams) {
  const Json pieces = Json::array({{"<unk>", 0}, {"a", -1}, {"aa", -1.5}, {"aaaa", -2}, {"b", -3}, {"bc", -3.5}, {"\n", -4}});
  expect_linear(*load({{"normalizer", {{"type", "NFKC"}}}, {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pieces}}}}),
                "unigram");
  const Json words{{"type", "WordPiece"}, {"unk_token", "?"}, {"continuing_subword_prefix", "##"}, {"max_input_chars_per_word", 10000000},
                   {"vocab", {{"?", 0}, {"a", 1}, {"##a", 2}, {"##aa", 3}}}};
  expect_linear(*load({{"normalizer", {{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true}, {"lowercase", true}}},
                       {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                       {"model", words}}),
                "word pieces");
  for (const int type : {1, 2}) {
    SentencePieceModel model;
    model.model_type = type;
    model.pieces = {{"<unk>", 0, PieceType::unknown}, {"\xE2\x96\x81", -1}, {"a", -2}, {"aa", -2.5F}, {"aaaa", -3}, {"b", -4}};
    expect_linear(SentencePieceTokenizer(model, {}, false), "a SentencePiece model");
  }
}

}  // namespace
}  // namespace mt::tokenizer
