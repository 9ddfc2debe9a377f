// SentencePiece models: ids and text of the library, and what is refused.

#include "tokenizer/sentencepiece_tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/protobuf_reader.h"
#include "peer_vectors.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

using Ids = std::vector<Id>;

TEST(SentencePiece, gives_the_ids_and_the_text_of_the_library) {
  const ScratchDirectory dir;
  const std::vector<Json> all = peer_vectors("sentencepiece");
  ASSERT_GE(all.size(), 6u);
  for (const Json& j : all) {
    TokenizerSpec spec;
    spec.type = "GPTSentencePieceTokenizer";
    spec.model = dir.file("tokenizer.model", decode_base64(j.at("model").get<std::string>()));
    const auto tokenizer = make_tokenizer(spec);
    EXPECT_EQ(tokenizer->eod(), j.at("eos").get<Id>());
    EncodeScratch scratch;
    for (const Json& c : j.at("cases")) {
      Ids ids;
      tokenizer->encode(c.at(0).get<std::string>(), scratch, ids);
      EXPECT_EQ(ids, c.at(1).get<Ids>()) << j.at("name") << " on " << c.at(0);
      EXPECT_EQ(tokenizer->decode(ids), c.at(2).get<std::string>()) << j.at("name") << " on " << c.at(0);
    }
  }
}

SentencePieceModel small_model() {
  SentencePieceModel model;
  model.model_type = 2;
  model.pieces = {{"<unk>", 0, PieceType::unknown}, {"<s>", 0, PieceType::control},
                  {"</s>", 0, PieceType::control},  {"\xE2\x96\x81", -1, PieceType::normal},
                  {"a", -2, PieceType::normal},     {"aa", -3, PieceType::normal},
                  {"ab", -3, PieceType::normal}};
  return model;
}

TEST(SentencePiece, of_equal_scores_the_leftmost_pair_goes_first) {
  const SentencePieceTokenizer tokenizer(small_model(), {}, false);
  EXPECT_EQ(tokenizer.encode("aab"), (Ids{3, 5, 0}));  // not a, ab: b is no piece of its own, but merges
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{3, 6}));
  EXPECT_EQ(tokenizer.encode("bb"), (Ids{3, 0}));
}

TEST(SentencePiece, control_pieces_in_text_are_text_unless_asked_for) {
  const SentencePieceTokenizer plain(small_model(), {}, false), parsed(small_model(), "<s>", true);
  EncodeScratch scratch;
  Ids ids;
  plain.encode("a</s>a", scratch, ids);
  EXPECT_EQ(scratch.specials_as_text, 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 0);
  EXPECT_EQ(parsed.encode("a</s>a"), (Ids{3, 4, 2, 3, 4}));
  EXPECT_EQ(parsed.eod(), 1);
  EXPECT_EQ(plain.eod(), 2);
  EXPECT_NE(plain.fingerprint(), 0u);
}

TEST(SentencePiece, what_it_does_not_do_is_refused) {
  const auto refusal = [](const std::function<void(SentencePieceModel&)>& change, std::optional<std::string> eod = {}) {
    SentencePieceModel model = small_model();
    change(model);
    try {
      SentencePieceTokenizer(std::move(model), eod, false);
      return std::string("accepted");
    } catch (const Error& e) {
      return e.message();
    }
  };
  const auto has = [](const std::string& text, const char* word) { return text.find(word) != std::string::npos; };
  EXPECT_TRUE(has(refusal([](auto& m) { m.model_type = 3; }), "words"));
  EXPECT_TRUE(has(refusal([](auto& m) { m.model_type = 4; }), "characters"));
  EXPECT_TRUE(has(refusal([](auto& m) { m.pieces[6].type = PieceType::unused; }), "unused pieces"));
  EXPECT_TRUE(has(refusal([](auto& m) { m.denormalizes = true; }), "denormalizer"));
  EXPECT_TRUE(has(refusal([](auto&) {}, "<none>"), "<none>"));
  EXPECT_EQ(refusal([](auto&) {}), "accepted");
  const SentencePieceTokenizer tokenizer(small_model(), {}, false);
  EXPECT_THROW(tokenizer.decode(Ids{7}), Error);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
}

TEST(SentencePiece, files_that_are_none_are_told_apart) {
  const ScratchDirectory dir;
  for (const std::string& content : {std::string(), std::string("{}"), std::string("\x0A\x05\x0A\x03" "abc", 7)}) {
    TokenizerSpec spec;
    spec.type = "SentencePieceTokenizer";
    spec.model = dir.file("tokenizer.model", content);
    try {
      make_tokenizer(spec);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt) << e.what();
      EXPECT_NE(std::string(e.what()).find("tokenizer.model"), std::string::npos);
    }
  }
}

TEST(ProtobufReader, reads_each_kind_and_refuses_the_rest) {
  const std::string message("\x08\x96\x01\x12\x02hi\x1D\x00\x00\x80\x3F\x21" "12345678", 21);
  ProtobufReader field(message);
  ASSERT_TRUE(field.next());
  EXPECT_EQ(field.number(), 1u);
  EXPECT_EQ(field.varint(), 150u);
  EXPECT_THROW(field.bytes(), Error);
  ASSERT_TRUE(field.next());
  EXPECT_EQ(field.bytes(), "hi");
  ASSERT_TRUE(field.next());
  EXPECT_EQ(field.single(), 1.0f);
  ASSERT_TRUE(field.next());
  EXPECT_EQ(field.number(), 4u);
  EXPECT_FALSE(field.next());
  for (const std::string& bad : {std::string("\x12\x05" "abc"), std::string("\x0B"), std::string("\xFF"),
                                std::string("\x08") + std::string(11, '\xFF'), std::string("\x00\x01", 2)}) {
    ProtobufReader broken(bad);
    EXPECT_THROW(broken.next(), Error);
  }
}

}  // namespace
}  // namespace mt::tokenizer
