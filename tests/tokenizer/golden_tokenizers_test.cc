// Ids of the reference library, line by line.

#include <sstream>

#include <gtest/gtest.h>

#include "base/json.h"
#include "tokenizer/nfc.h"
#include "tokenizer/tokenizer.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

struct Golden {
  std::string text;
  std::vector<Id> ids, ids_special;
};

std::vector<Golden> read_golden(const std::filesystem::path& path) {
  std::istringstream lines(read_file(path));
  std::vector<Golden> rows;
  for (std::string line; std::getline(lines, line);) {
    const Json j = parse_json(line, path.string());
    rows.push_back({j.at("text").get<std::string>(), j.at("ids").get<std::vector<Id>>(),
                    j.at("ids_special").get<std::vector<Id>>()});
  }
  return rows;
}

using TextRule = std::string (*)(const std::string&);

// What comes back: the text, or what normalisation left of it.
std::string same(const std::string& text) { return text; }
std::string composed(const std::string& text) {
  std::string buffer;
  return std::string(to_nfc(text, buffer));
}
// A space stands for itself and for U+2581, and after a special token the text starts anew with one.
std::string spaced(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool block = text.compare(i, 3, "\xE2\x96\x81") == 0;
    out += block ? ' ' : text[i];
    if (block) i += 2;
  }
  for (const std::string token : {"<s>", "</s>", "<unk>"}) {
    for (std::size_t at = 0; (at = out.find(token, at)) != std::string::npos;) {
      at += token.size();
      if (at < out.size() && out.compare(at, 1, "<") != 0) out.insert(at, " ");
    }
  }
  return out;
}

void expect_golden(const Tokenizer& tokenizer, const std::filesystem::path& path, TextRule expected_text) {
  const std::vector<Golden> rows = read_golden(path);
  ASSERT_GT(rows.size(), 100u);
  EncodeScratch scratch;  // shared over lines, as a worker shares it
  for (const Golden& row : rows) {
    std::vector<Id> ids;
    tokenizer.encode(row.text, scratch, ids);
    EXPECT_EQ(ids, row.ids) << "text: " << row.text;
    EXPECT_EQ(tokenizer.encode_alone(row.text), row.ids_special) << "text: " << row.text;
    EXPECT_EQ(tokenizer.decode(row.ids), expected_text(row.text));
  }
}

class GoldenTokenizers : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizers, give_the_reference_ids_and_the_text_back) {
  const auto folder = test_data() / "tokenizers" / GetParam();
  if (!std::filesystem::exists(folder / "golden.jsonl")) GTEST_SKIP() << "no " << folder;
  TokenizerSpec spec;
  spec.model = folder;
  spec.parse_special = true;
  const std::string name = GetParam();
  expect_golden(*make_tokenizer(spec), folder / "golden.jsonl",
                name == "qwen3" ? composed : name == "mistral_v1" ? spaced : same);
}

INSTANTIATE_TEST_SUITE_P(, GoldenTokenizers, ::testing::Values("gpt2", "llama3", "qwen3", "deepseek_v3", "mistral_v1"));

TEST(Gpt2FromVocabAndMerges, gives_the_ids_and_the_fingerprint_of_its_tokenizer_json) {
  const auto folder = test_data() / "tokenizers" / "gpt2";
  if (!std::filesystem::exists(folder / "merges.txt")) GTEST_SKIP() << "no " << folder;
  TokenizerSpec spec;
  spec.type = "GPT2BPETokenizer";
  spec.vocab_file = folder / "vocab.json";
  spec.merge_file = folder / "merges.txt";
  spec.parse_special = true;
  const auto tokenizer = make_tokenizer(spec);
  expect_golden(*tokenizer, folder / "golden.jsonl", same);
  TokenizerSpec json;
  json.model = folder / "tokenizer.json";
  EXPECT_EQ(tokenizer->fingerprint(), make_tokenizer(json)->fingerprint());
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->eod(), 50256);
}

TEST(EndToken, comes_from_the_configuration_beside_the_file) {
  const auto folder = test_data() / "tokenizers" / "qwen3";
  if (!std::filesystem::exists(folder / "tokenizer_config.json")) GTEST_SKIP() << "no " << folder;
  TokenizerSpec spec;
  spec.model = folder / "tokenizer.json";
  EXPECT_EQ(require_eod(*make_tokenizer(spec)), 151645);  // <|im_end|>
  spec.eod_token = "<|endoftext|>";
  EXPECT_EQ(require_eod(*make_tokenizer(spec)), 151643);
}

}  // namespace
}  // namespace mt::tokenizer
