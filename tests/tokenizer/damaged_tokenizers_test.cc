// Tokenizer files with random damage: an Error or a working tokenizer, never a crash.

#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer.h"
#include "peer_vectors.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

// Bytes changed, left out, doubled, or put in from elsewhere in the file.
std::string damaged(const std::string& file, std::mt19937& random) {
  std::string text = file;
  for (auto n = 1 + random() % 4; n > 0 && !text.empty(); --n) {
    const std::size_t at = random() % text.size(), size = 1 + random() % std::min<std::size_t>(text.size() - at, 40);
    switch (random() % 6) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, size); break;
      case 2: text.insert(at, text.substr(at, size)); break;
      case 3: text.insert(at, text.substr(random() % text.size(), size)); break;
      case 4: text.resize(at); break;
      default: text.replace(at, 1, "99999999"); break;
    }
  }
  return text;
}

struct Outcome {
  int loaded = 0, refused = 0;
};

// Load and use; what is refused must be refused by an Error.
void try_file(const TokenizerSpec& spec, Outcome& outcome) {
  try {
    const auto tokenizer = make_tokenizer(spec);
    ++outcome.loaded;
    for (const char* text : {"Hello wor\u0301ld 12 <s> [X]\u4E2D", "", " a\n\u2581"}) {
      tokenizer->decode(tokenizer->encode(text));
    }
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    ++outcome.refused;
  }
}

TEST(DamagedTokenizers, json_files_are_refused_or_work) {
  const ScratchDirectory dir;
  std::mt19937 random(17);
  Outcome outcome;
  for (const Json& j : peer_vectors("tokenizer")) {
    const std::string file = j.at("part").dump();
    for (int i = 0; i < 80; ++i) {
      TokenizerSpec spec;
      spec.model = dir.path() / "tokenizer.json";
      std::ofstream(spec.model, std::ios::binary) << damaged(file, random);
      spec.parse_special = true;
      try_file(spec, outcome);
    }
  }
  EXPECT_GT(outcome.loaded, 5);
  EXPECT_GT(outcome.refused, 200);
}

TEST(DamagedTokenizers, sentencepiece_models_are_refused_or_work) {
  const ScratchDirectory dir;
  std::mt19937 random(18);
  Outcome outcome;
  for (const Json& j : peer_vectors("sentencepiece")) {
    const std::string file = decode_base64(j.at("model").get<std::string>());
    for (int i = 0; i < 250; ++i) {
      TokenizerSpec spec;
      spec.type = "SentencePieceTokenizer";
      spec.model = dir.path() / "tokenizer.model";
      std::ofstream(spec.model, std::ios::binary) << damaged(file, random);
      spec.parse_special = true;
      try_file(spec, outcome);
    }
  }
  EXPECT_GT(outcome.loaded, 30);
  EXPECT_GT(outcome.refused, 200);
}

TEST(DamagedTokenizers, lists_of_ranks_are_refused_or_work) {
  const ScratchDirectory dir;
  std::mt19937 random(19);
  Outcome outcome;
  Json list = Json::array();
  std::string lines;
  const Json tokens = peer_vectors("ranks").at(0).at("tokens");
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string token = tokens.at(rank);
    list.push_back({{"rank", rank}, {"token_bytes", token}, {"token_str", nullptr}});
    lines += token + " " + std::to_string(rank) + "\n";
  }
  const Json tekken{{"config", {{"pattern", "\\p{L}+|."}, {"default_num_special_tokens", 20}}}, {"vocab", list}};
  for (const std::string& file : {lines, list.dump(), tekken.dump()}) {
    for (int i = 0; i < 150; ++i) {
      TokenizerSpec spec;
      spec.type = "TikTokenizer";
      spec.model = dir.path() / "tokens";
      std::ofstream(spec.model, std::ios::binary) << damaged(file, random);
      spec.tiktoken_pattern = "cl100k";
      spec.tiktoken_num_special_tokens = 7;
      try_file(spec, outcome);
    }
  }
  EXPECT_GT(outcome.loaded, 5);
  EXPECT_GT(outcome.refused, 200);
}

}  // namespace
}  // namespace mt::tokenizer
