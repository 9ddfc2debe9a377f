// Megabytes of text made by a seed, encoded: the ids have the hash that the package tokenizers' have, which
// tests/peers/seeded_text.py recorded in seeded_hashes.tsv.
//
// Hash of numbers n: h = h * 6364136223846793005 + n + 1442695040888963407 in 64 bits, from 0, over all documents.

#include "seeded_text.h"

#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "tokenizer/tokenizer.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

constexpr std::uint64_t kSeed = 20;

struct Recorded {
  std::size_t documents = 0, bytes = 0, tokens = 0;
  std::string text_hash, ids_hash;
};

std::map<std::string, Recorded> recorded() {
  const char* source = std::getenv("MT_TEST_SOURCE");
  std::istringstream lines(read_file(std::string(source != nullptr ? source : ".") + "/tests/tokenizer/seeded_hashes.tsv"));
  std::map<std::string, Recorded> all;
  std::string name, package, version;
  for (Recorded r; lines >> name >> package >> version >> r.documents >> r.bytes >> r.text_hash >> r.tokens >> r.ids_hash;) {
    all[name] = r;
  }
  return all;
}

std::string hash_text_of(std::uint64_t hash) { return fmt::format("{:016x}", hash); }
void add(std::uint64_t& hash, std::uint64_t n) { hash = hash * 6364136223846793005ull + n + 1442695040888963407ull; }

class SeededHashes : public ::testing::TestWithParam<const char*> {};

TEST_P(SeededHashes, are_those_of_the_reference) {
  const std::string name = GetParam();
  const auto all = recorded();
  ASSERT_EQ(all.count(name), 1u) << name;
  const Recorded& want = all.at(name);
  const auto folder = test_data() / "tokenizers" / name;
  if (!std::filesystem::exists(folder / "tokenizer.json")) GTEST_SKIP() << "no " << folder;
  TokenizerSpec spec;
  spec.model = folder;
  spec.parse_special = true;
  const auto tokenizer = make_tokenizer(spec);
  SeededText source(kSeed);
  EncodeScratch scratch;
  std::uint64_t text_hash = 0, ids_hash = 0;
  std::size_t bytes = 0, tokens = 0;
  const bool lossless = name != "qwen3" && name != "mistral_v1";  // NFC; U+2581 and a space are one
  for (std::size_t i = 0; i < want.documents; ++i) {
    const std::string text = source.document();
    bytes += text.size();
    for (const char c : text) add(text_hash, static_cast<unsigned char>(c));
    std::vector<Id> ids;
    tokenizer->encode(text, scratch, ids);
    tokens += ids.size();
    for (const Id id : ids) add(ids_hash, static_cast<std::uint64_t>(id));
    if (lossless) {
      ASSERT_EQ(tokenizer->decode(ids), text) << "document " << i;
    }
  }
  EXPECT_EQ(bytes, want.bytes);
  ASSERT_EQ(hash_text_of(text_hash), want.text_hash) << "another text than the one recorded";
  EXPECT_EQ(tokens, want.tokens);
  EXPECT_EQ(hash_text_of(ids_hash), want.ids_hash);
}

INSTANTIATE_TEST_SUITE_P(, SeededHashes, ::testing::Values("gpt2", "llama3", "qwen3", "deepseek_v3", "mistral_v1"));

}  // namespace
}  // namespace mt::tokenizer
