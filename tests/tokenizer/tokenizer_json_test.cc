// tokenizer.json: what is read, what is refused, and the trainer's own files.

#include "tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/byte_tokenizer.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

// A small byte-level tokenizer as JSON: 256 bytes, "ab" = 256, "abc" = 257, and what `change` makes of it.
Json small_file() {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[token_of_bytes(std::string(1, static_cast<char>(b)))] = b;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return Json{{"version", "1.0"},
              {"added_tokens", Json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
              {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", Json::array({"ab", "c"})}}}}};
}

Json added(const std::string& content, int id, bool special) {
  return Json{{"id", id},         {"content", content}, {"single_word", false}, {"lstrip", false},
              {"rstrip", false}, {"normalized", false}, {"special", special}};
}

std::unique_ptr<Tokenizer> load(const ScratchDirectory& dir, const Json& file, TokenizerSpec spec = {}) {
  spec.model = dir.file("tokenizer.json", file.dump());
  return make_tokenizer(spec);
}

using Ids = std::vector<Id>;

TEST(TokenizerJson, merges_come_as_strings_and_as_pairs) {
  const ScratchDirectory dir;
  const auto tokenizer = load(dir, small_file());
  EXPECT_EQ(tokenizer->encode("abc ab"), (Ids{257, 32, 256}));
  EXPECT_EQ(tokenizer->vocab_size(), 258);
}

TEST(TokenizerJson, an_added_token_keeps_its_id_and_sets_the_size) {
  const ScratchDirectory dir;
  Json file = small_file();
  for (int id = 258; id < 65490; ++id)
    file["model"]["vocab"].get_ref<Json::object_t&>().push_back({"t" + std::to_string(id), id});
  file["added_tokens"].push_back(added("<|x|>", 65510, false));
  const auto tokenizer = load(dir, file);
  EXPECT_EQ(tokenizer->vocab_size(), 65511);
  EXPECT_EQ(tokenizer->encode("a<|x|>b"), (Ids{'a', 65510, 'b'}));
  EXPECT_EQ(tokenizer->decode(Ids{65510}), "<|x|>");
  EXPECT_THROW(tokenizer->decode(Ids{65500}), Error);  // in the gap
}

TEST(TokenizerJson, added_tokens_that_are_none_are_damage) {
  const ScratchDirectory dir;
  const std::vector<Json> wrong = {-1, "x", nullptr, Json::object(), Json::array({4294967296}), Json::array({"<|x|>"}),
                                   Json::array({{{"id", 258}, {"content", 7}}}), Json::array({{{"id", 258}}}),
                                   Json::array({added("<|x|>", 1000000000, false)})};
  for (const Json& list : wrong) {
    Json file = small_file();
    file["added_tokens"] = list;
    try {
      load(dir, file);
      ADD_FAILURE() << "taken: " << list.dump();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    }
  }
  Json file = small_file();
  file.erase("added_tokens");
  EXPECT_EQ(load(dir, file)->vocab_size(), 258);
}

TEST(TokenizerJson, special_tokens_match_only_when_asked) {
  const ScratchDirectory dir;
  Json file = small_file();
  file["added_tokens"] = Json::array({added("<|endoftext|>", 258, true), added("<tool>", 259, false)});
  const auto plain = load(dir, file);
  EncodeScratch scratch;
  Ids ids;
  plain->encode("a<|endoftext|><tool>", scratch, ids);
  EXPECT_EQ(scratch.specials_as_text, 1);
  EXPECT_EQ(ids.size(), 1u + 13u + 1u);
  EXPECT_EQ(ids.back(), 259);
  EXPECT_EQ(plain->decode(ids), "a<|endoftext|><tool>");
  TokenizerSpec spec;
  spec.parse_special = true;
  EXPECT_EQ(load(dir, file, spec)->encode("a<|endoftext|><tool>"), (Ids{'a', 258, 259}));
}

// A special token that stands in the vocabulary is spelled by plain text: that is no way to a control id.
TEST(TokenizerJson, a_special_token_of_the_vocabulary_does_not_come_of_text) {
  const ScratchDirectory dir;
  const Json words{{"a", 0}, {"</s>", 1}, {"[UNK]", 2}};
  const Json pieces = Json::array({Json::array({"a", -1.0}), Json::array({"</s>", -1.0}), Json::array({"[UNK]", 0.0})});
  const Json models[] = {{{"type", "WordLevel"}, {"vocab", words}, {"unk_token", "[UNK]"}},
                         {{"type", "WordPiece"}, {"vocab", words}, {"unk_token", "[UNK]"}, {"continuing_subword_prefix", "##"},
                          {"max_input_chars_per_word", 100}},
                         {{"type", "Unigram"}, {"vocab", pieces}, {"unk_id", 2}}};
  for (const Json& model : models) {
    const Json file{{"added_tokens", {added("</s>", 1, true), added("[UNK]", 2, true)}},
                    {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                    {"model", model}};
    EXPECT_EQ(load(dir, file)->encode("a </s> a"), (Ids{0, 2, 0})) << model;
    TokenizerSpec parse;
    parse.parse_special = true;
    EXPECT_EQ(load(dir, file, parse)->encode("a </s> a"), (Ids{0, 1, 0})) << model;
    EXPECT_EQ(load(dir, file)->decode(Ids{1}), "</s>") << model;
  }
}

TEST(TokenizerJson, the_end_token_is_named_or_the_only_known_one) {
  const ScratchDirectory dir;
  Json file = small_file();
  EXPECT_THROW(require_eod(*load(dir, file)), Error);
  file["added_tokens"] = Json::array({added("<|endoftext|>", 258, true)});
  EXPECT_EQ(require_eod(*load(dir, file)), 258);
  file["added_tokens"].push_back(added("</s>", 259, true));
  EXPECT_FALSE(load(dir, file)->eod());
  TokenizerSpec spec;
  spec.eod_token = "</s>";
  EXPECT_EQ(load(dir, file, spec)->eod(), 259);
  spec.eod_token = "absent";
  EXPECT_THROW(load(dir, file, spec), Error);
  dir.file("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}})");
  EXPECT_EQ(load(dir, file)->eod(), 259);
}

TEST(TokenizerJson, what_it_does_not_know_is_named) {
  const ScratchDirectory dir;
  const auto refusal = [&dir](const std::function<void(Json&)>& change) {
    Json file = small_file();
    change(file);
    try {
      load(dir, file);
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  const auto has = [](const std::string& text, const std::string& word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(has(refusal([](Json& j) { j["model"]["type"] = "Ngram"; }), "model Ngram is not supported"));
  EXPECT_TRUE(has(refusal([](Json& j) { j["model"]["dropout"] = 0.1; }), "dropout"));
  EXPECT_TRUE(has(refusal([](Json& j) { j["normalizer"] = {{"type", "Rot13"}}; }), "normalizer Rot13"));
  EXPECT_TRUE(has(refusal([](Json& j) { j["pre_tokenizer"] = {{"type", "Syllables"}}; }), "pre_tokenizer Syllables"));
  EXPECT_TRUE(has(refusal([](Json& j) {
    j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Sometimes"}};
  }), "pre_tokenizer.behavior Sometimes"));
  EXPECT_TRUE(has(refusal([](Json& j) {
    j["pre_tokenizer"] = nullptr;
    j["decoder"] = {{"type", "Runes"}};
  }), "decoder Runes"));
  EXPECT_TRUE(has(refusal([](Json& j) { j["post_processor"] = {{"type", "Wrap"}}; }), "post_processor Wrap"));
  EXPECT_TRUE(has(refusal([](Json& j) {
    j["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"a", 97}}, {"sep", {"?", 999}}};
  }), "id 999 is no token"));
  EXPECT_TRUE(has(refusal([](Json& j) {
    j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}, {"pair", Json::array()}, {"special_tokens", Json::object()}};
  }), "wanted one text in it, found 0"));
  EXPECT_TRUE(has(refusal([](Json& j) { j["model"]["merges"].push_back("a zz"); }), "no token 'zz'"));
  EXPECT_TRUE(has(refusal([](Json& j) { j["model"]["vocab"]["dup"] = 256; }), "token id 256"));
  EXPECT_TRUE(has(refusal([](Json& j) { j.erase("model"); }), "not a tokenizer.json"));
  EXPECT_EQ(refusal([](Json&) {}), "accepted");
}

// Two ways of one score: the reference's reader of numbers rounds -10.886665344238281 so that one of them is better.
TEST(TokenizerJson, scores_are_those_that_the_reference_reads) {
  const ScratchDirectory dir;
  const Json file = parse_json(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"},
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["_1.0", -10.886665344238281],
      ["0000", -13.058304786682129], ["0", -5.594649314880371], ["_", -1e-3], ["1", -2.5e-310]]}})", "here");
  const auto tokenizer = load(dir, file);
  EXPECT_EQ(tokenizer->encode("1.000000"), (Ids{1, 2, 3}));  // tokenizers 0.23.3; with exact numbers 1, 3, 2
}

TEST(TokenizerJson, a_byte_without_token_is_an_error_not_a_loss) {
  const ScratchDirectory dir;
  Json file = small_file();
  file["model"]["vocab"].erase("z");
  EXPECT_THROW(load(dir, file)->encode("xyz"), Error);
  EXPECT_EQ(load(dir, file)->encode("xy"), (Ids{'x', 'y'}));
}

TEST(Tokenizers, unknown_types_and_missing_flags_are_usage_errors) {
  for (const char* type : {"Sentence", "HuggingFaceTokenizer", "GPT2BPETokenizer", "NullTokenizer"}) {
    TokenizerSpec spec;
    spec.type = type;
    try {
      make_tokenizer(spec);
      FAIL() << type;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage) << e.what();
    }
  }
}

TEST(NullTokenizer, reads_integers_and_nothing_else) {
  const NullTokenizer tokenizer(100);
  EXPECT_EQ(tokenizer.encode(" 1 99\n0"), (Ids{1, 99, 0}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 99}), "1 99");
  EXPECT_THROW(tokenizer.encode("1 100"), Error);
  EXPECT_THROW(tokenizer.encode("1 x"), Error);
  EXPECT_EQ(tokenizer.eod(), 99);
}

TEST(Fingerprint, tells_vocabularies_apart_but_not_end_tokens) {
  const ScratchDirectory dir;
  Json file = small_file(), other = small_file();
  other["model"]["merges"] = Json::array({"a b"});
  TokenizerSpec spec;
  spec.eod_token = "a";
  EXPECT_EQ(load(dir, file)->fingerprint(), load(dir, file, spec)->fingerprint());
  EXPECT_NE(load(dir, file)->fingerprint(), load(dir, other)->fingerprint());
}

}  // namespace
}  // namespace mt::tokenizer
