// What Hugging Face's library makes of small inputs, recorded by tests/peers/record_vectors.py.

#include <gtest/gtest.h>

#include "base/json.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/tokenizer.h"
#include "peer_vectors.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

TEST(PeerVectors, normalizers_give_the_same_text) {
  const std::vector<Json> all = peer_vectors("normalizer");
  ASSERT_GT(all.size(), 15u);
  for (const Json& j : all) {
    const Normalizer normalizer(j.at("part"));
    std::string buffer, other;
    for (const Json& c : j.at("cases")) {
      const std::string text = c.at(0);
      EXPECT_EQ(std::string(normalizer.apply(text, buffer, other)), c.at(1).get<std::string>())
          << j.at("part") << " on " << c.at(0);
    }
  }
}

TEST(PeerVectors, pre_tokenizers_give_the_same_pieces) {
  const std::vector<Json> all = peer_vectors("pre_tokenizer");
  ASSERT_GT(all.size(), 30u);
  for (const Json& j : all) {
    const PreTokenizer pre(j.at("part"));
    CutText cut;
    for (const Json& c : j.at("cases")) {
      const std::string text = c.at(0);
      pre.apply(text, true, cut);
      std::vector<std::string> pieces;
      for (const TextSpan& p : cut.pieces) pieces.emplace_back(cut.text.substr(p.begin, p.end - p.begin));
      std::vector<std::string> expected = c.at(1);
      std::erase(expected, "");
      EXPECT_EQ(pieces, expected) << j.at("part") << " on " << c.at(0);
    }
  }
}

TEST(PeerVectors, decoders_give_the_same_text) {
  const std::vector<Json> all = peer_vectors("decoder");
  ASSERT_GT(all.size(), 10u);
  for (const Json& j : all) {
    const TokenDecoder decoder(j.at("part"));
    for (const Json& c : j.at("cases")) {
      std::vector<std::string> tokens = c.at(0);
      std::string out;
      decoder.decode(tokens, out);
      EXPECT_EQ(out, c.at(1).get<std::string>()) << j.at("part") << " on " << c.at(0);
    }
  }
}

TEST(PeerVectors, whole_tokenizers_give_the_same_ids_and_text) {
  const std::vector<Json> all = peer_vectors("tokenizer");
  ASSERT_GE(all.size(), 8u);
  const ScratchDirectory dir;
  for (const Json& j : all) {
    TokenizerSpec spec;
    spec.model = dir.file("tokenizer.json", j.at("part").dump());
    spec.parse_special = true;
    const auto tokenizer = make_tokenizer(spec);
    EncodeScratch scratch;
    for (const Json& c : j.at("cases")) {
      std::vector<Id> ids;
      tokenizer->encode(c.at(0).get<std::string>(), scratch, ids);
      EXPECT_EQ(ids, c.at(1).get<std::vector<Id>>()) << j.at("name") << " on " << c.at(0);
      EXPECT_EQ(tokenizer->encode_alone(c.at(0).get<std::string>()), c.at(2).get<std::vector<Id>>()) << c.at(0);
      EXPECT_EQ(tokenizer->decode(ids), c.at(3).get<std::string>()) << j.at("name") << " on " << c.at(0);
    }
  }
}

}  // namespace
}  // namespace mt::tokenizer
