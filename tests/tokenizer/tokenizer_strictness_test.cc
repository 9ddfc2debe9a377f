// Fields of a tokenizer.json with a type they must not have, byte pieces that are not all there, words that stand twice:
// refused or counted as the packages do it (tokenizers 0.23.3, sentencepiece 0.2.3, Megatron's dictionary).

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

// Files that hold every field somewhere; none is refused as it is.
Json whole_file(const std::string& model) {
  Json file = parse_json(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "[X]", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
      {"type": "Strip", "strip_left": true, "strip_right": true}, {"type": "Prepend", "prepend": "x"},
      {"type": "Replace", "pattern": {"Regex": "y"}, "content": "x"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"String": "-"}, "behavior": "Isolated", "invert": false},
      {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Isolated"},
      {"type": "CharDelimiterSplit", "delimiter": "|"}, {"type": "FixedLength", "length": 5},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true, "add_prefix_space": true},
      {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[X]", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[X]", "type_id": 0}}], "special_tokens": {"[X]": {"id": "[X]", "ids": [3], "tokens": ["[X]"]}}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true, "add_prefix_space": true},
      {"type": "Replace", "pattern": {"String": " "}, "content": "x"}, {"type": "Strip", "content": "x", "start": 1, "stop": 0},
      {"type": "WordPiece", "prefix": "##", "cleanup": true}, {"type": "BPEDecoder", "suffix": "x"},
      {"type": "CTC", "pad_token": "x", "word_delimiter_token": "|", "cleanup": true},
      {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]}})", "here");
  file["model"] = parse_json(model, "here");
  return file;
}

const char* const kBpe = R"({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
  "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})";
const char* const kUnigram = R"({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["a", -1], ["b", -2]]})";
const char* const kWordPiece = R"({"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 100, "vocab": {"a": 0, "b": 1}})";
const char* const kWordLevel = R"({"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}})";

std::string refusal(const Json& file) {
  const ScratchDirectory dir;
  TokenizerSpec spec;
  spec.model = dir.file("tokenizer.json", file.dump());
  try {
    make_tokenizer(spec);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::corrupt) << error.what();
    return error.message();
  }
}

// What a field may be, in the letters n(ull) t(rue) 1 - (negative) . (fraction) s(tring) [ {.
struct Field {
  const char *model, *pointer, *path, *allowed;
};
const Field kFields[] = {
    {kBpe, "/version", "version", "s"},
    {kBpe, "/truncation", "truncation", "n{"},
    {kBpe, "/added_tokens", "added_tokens", "["},
    {kBpe, "/added_tokens/0/id", "added_tokens[0].id", "1"},
    {kBpe, "/added_tokens/0/content", "added_tokens[0].content", "s"},
    {kBpe, "/added_tokens/0/lstrip", "added_tokens[0].lstrip", "t"},
    {kBpe, "/added_tokens/0/single_word", "added_tokens[0].single_word", "t"},
    {kBpe, "/added_tokens/0/normalized", "added_tokens[0].normalized", "t"},
    {kBpe, "/added_tokens/0/special", "added_tokens[0].special", "t"},
    {kBpe, "/normalizer", "normalizer", "n"},
    {kBpe, "/normalizer/normalizers", "normalizer.normalizers", "["},
    {kBpe, "/normalizer/normalizers/0/clean_text", "normalizer.normalizers[0].clean_text", "t"},
    {kBpe, "/normalizer/normalizers/0/strip_accents", "normalizer.normalizers[0].strip_accents", "nt"},
    {kBpe, "/normalizer/normalizers/1/strip_left", "normalizer.normalizers[1].strip_left", "t"},
    {kBpe, "/normalizer/normalizers/2/prepend", "normalizer.normalizers[2].prepend", "s"},
    {kBpe, "/normalizer/normalizers/3/pattern", "normalizer.normalizers[3].pattern", ""},
    {kBpe, "/normalizer/normalizers/3/pattern/Regex", "normalizer.normalizers[3].pattern.Regex", "s"},
    {kBpe, "/normalizer/normalizers/3/content", "normalizer.normalizers[3].content", "s"},
    {kBpe, "/pre_tokenizer/pretokenizers/0/behavior", "pre_tokenizer.pretokenizers[0].behavior", ""},
    {kBpe, "/pre_tokenizer/pretokenizers/0/invert", "pre_tokenizer.pretokenizers[0].invert", "t"},
    {kBpe, "/pre_tokenizer/pretokenizers/0/pattern/String", "pre_tokenizer.pretokenizers[0].pattern.String", "s"},
    {kBpe, "/pre_tokenizer/pretokenizers/1/individual_digits", "pre_tokenizer.pretokenizers[1].individual_digits", "t"},
    {kBpe, "/pre_tokenizer/pretokenizers/2/behavior", "pre_tokenizer.pretokenizers[2].behavior", ""},
    {kBpe, "/pre_tokenizer/pretokenizers/3/delimiter", "pre_tokenizer.pretokenizers[3].delimiter", "s"},
    {kBpe, "/pre_tokenizer/pretokenizers/4/length", "pre_tokenizer.pretokenizers[4].length", "1"},
    {kBpe, "/pre_tokenizer/pretokenizers/5/replacement", "pre_tokenizer.pretokenizers[5].replacement", "s"},
    {kBpe, "/pre_tokenizer/pretokenizers/5/prepend_scheme", "pre_tokenizer.pretokenizers[5].prepend_scheme", ""},
    {kBpe, "/pre_tokenizer/pretokenizers/5/split", "pre_tokenizer.pretokenizers[5].split", "nt"},
    {kBpe, "/pre_tokenizer/pretokenizers/5/add_prefix_space", "pre_tokenizer.pretokenizers[5].add_prefix_space", "nt"},
    {kBpe, "/pre_tokenizer/pretokenizers/6/add_prefix_space", "pre_tokenizer.pretokenizers[6].add_prefix_space", "t"},
    {kBpe, "/pre_tokenizer/pretokenizers/6/use_regex", "pre_tokenizer.pretokenizers[6].use_regex", "t"},
    {kBpe, "/post_processor", "post_processor", "n"},
    {kBpe, "/post_processor/single", "post_processor.single", ""},
    {kBpe, "/post_processor/pair", "post_processor.pair", "["},
    {kBpe, "/post_processor/single/1/SpecialToken/id", "post_processor.single[1].SpecialToken.id", ""},
    {kBpe, "/post_processor/special_tokens", "post_processor.special_tokens", ""},
    {kBpe, "/decoder/decoders", "decoder.decoders", "["},
    {kBpe, "/decoder/decoders/0/replacement", "decoder.decoders[0].replacement", "s"},
    {kBpe, "/decoder/decoders/1/content", "decoder.decoders[1].content", "s"},
    {kBpe, "/decoder/decoders/2/start", "decoder.decoders[2].start", "1"},
    {kBpe, "/decoder/decoders/3/cleanup", "decoder.decoders[3].cleanup", "t"},
    {kBpe, "/decoder/decoders/4/suffix", "decoder.decoders[4].suffix", "s"},
    {kBpe, "/decoder/decoders/5/word_delimiter_token", "decoder.decoders[5].word_delimiter_token", "s"},
    {kBpe, "/model/unk_token", "model.unk_token", "n"},
    {kBpe, "/model/dropout", "model.dropout", "n"},
    {kBpe, "/model/continuing_subword_prefix", "model.continuing_subword_prefix", "n"},
    {kBpe, "/model/end_of_word_suffix", "model.end_of_word_suffix", "n"},
    {kBpe, "/model/fuse_unk", "model.fuse_unk", "nt"},
    {kBpe, "/model/byte_fallback", "model.byte_fallback", "nt"},
    {kBpe, "/model/ignore_merges", "model.ignore_merges", "nt"},
    {kBpe, "/model/merges", "model.merges", "["},
    {kUnigram, "/model/unk_id", "model.unk_id", "n1"},
    {kUnigram, "/model/byte_fallback", "model.byte_fallback", "t"},
    {kWordPiece, "/model/unk_token", "model.unk_token", "s"},
    {kWordPiece, "/model/continuing_subword_prefix", "model.continuing_subword_prefix", "s"},
    {kWordPiece, "/model/max_input_chars_per_word", "model.max_input_chars_per_word", "1"},
    {kWordLevel, "/model/unk_token", "model.unk_token", "s"},
};

TEST(TokenizerStrictness, a_field_of_another_type_is_refused_by_its_path) {
  struct Value {
    char letter;
    const char* json;
    const char* words;
  };
  const Value values[] = {{'n', "null", "null"},       {'t', "true", "a boolean"}, {'1', "1", "a number"},
                          {'-', "-1", "-1"},           {'.', "1.5", "1.5"},        {'s', "\"x\"", "a string"},
                          {'[', "[]", "an array"},     {'{', "{}", "an object"}};
  for (const Field& field : kFields) {
    const Json whole = whole_file(field.model);
    ASSERT_EQ(refusal(whole), "") << field.model;
    for (const Value& value : values) {
      if (std::string_view(field.allowed).find(value.letter) != std::string_view::npos) continue;
      // What the letters cannot say: strings and lists that are refused for what is in them.
      const bool content = (value.letter == 's' && field.allowed[0] == '\0') || std::string_view(field.allowed) == "n";
      if (content && (value.letter == 's' || value.letter == '1' || value.letter == '.' || value.letter == '-')) continue;
      Json file = whole;
      file[Json::json_pointer(field.pointer)] = parse_json(value.json, "value");
      const std::string said = refusal(file);
      EXPECT_NE(said.find(field.path), std::string::npos) << field.path << " = " << value.json << ": '" << said << "'";
      if (said.find("found") != std::string::npos && field.allowed[0] != '\0') {
        EXPECT_NE(said.find(value.words), std::string::npos) << field.path << " = " << value.json << ": " << said;
      }
    }
  }
}

TEST(TokenizerStrictness, what_is_allowed_is_taken) {
  for (const auto& [model, pointer, json] :
       {std::tuple{kBpe, "/model/fuse_unk", "null"}, {kBpe, "/model/unk_token", "\"a\""},
        {kUnigram, "/model/unk_id", "null"}, {kBpe, "/normalizer", "null"},
        {kBpe, "/pre_tokenizer/pretokenizers/5/split", "null"}, {kBpe, "/decoder/decoders/2/start", "7"}}) {
    Json file = whole_file(model);
    file[Json::json_pointer(pointer)] = parse_json(json, "value");
    EXPECT_EQ(refusal(file), "") << pointer << " = " << json;
  }
}

TEST(TokenizerStrictness, numbers_where_texts_belong_are_refused_in_the_model_too) {
  for (const char* pointer : {"/model/unk_token", "/model/end_of_word_suffix"}) {
    for (const Json& value : {Json(1), Json(-1), Json(1.5)}) {
      Json file = whole_file(kBpe);
      file[Json::json_pointer(pointer)] = value;
      EXPECT_NE(refusal(file).find("wanted a string"), std::string::npos) << pointer;
    }
  }
  Json file = whole_file(kBpe);
  file["model"]["dropout"] = "x";
  EXPECT_NE(refusal(file).find("model.dropout: wanted a number, found a string"), std::string::npos);
  file = whole_file(kBpe);
  file["pre_tokenizer"]["pretokenizers"][5]["replacement"] = "__";
  EXPECT_NE(refusal(file).find("wanted one character, found '__'"), std::string::npos);
}

std::string tag(int field, int wire) { return std::string(1, static_cast<char>(field << 3 | wire)); }
std::string message(int field, const std::string& bytes) {
  EXPECT_LT(bytes.size(), 128u);
  return tag(field, 2) + static_cast<char>(bytes.size()) + bytes;
}

// A BPE model file: an unknown piece, "a", and byte pieces of these names.
std::string model_file(const std::vector<std::string>& bytes, bool byte_fallback, int unknown = 1) {
  std::string file;
  const auto piece = [&file](const std::string& text, PieceType type) {
    file += message(1, message(1, text) + tag(3, 0) + static_cast<char>(type));
  };
  for (int i = 0; i < unknown; ++i) piece(fmt::format("<unk{}>", i), PieceType::unknown);
  piece("a", PieceType::normal);
  for (const std::string& name : bytes) piece(name, PieceType::byte);
  // The tag of field 35 takes two bytes.
  return file + message(2, tag(3, 0) + "\2" + std::string("\x98\x02", 2) + static_cast<char>(byte_fallback ? 1 : 0));
}

TEST(TokenizerStrictness, byte_pieces_are_all_there_or_none) {
  const ScratchDirectory dir;
  std::vector<std::string> all;
  for (int b = 0; b < 256; ++b) all.push_back(fmt::format("<0x{:02X}>", b));
  const auto said = [&dir](const std::string& file) -> std::string {
    try {
      read_sentencepiece_model(dir.file("m.model", file));
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::corrupt);
      return error.message();
    }
  };
  EXPECT_EQ(said(model_file(all, true)), "");
  EXPECT_EQ(said(model_file({}, false)), "");
  std::vector<std::string> some = all;
  some.pop_back();
  EXPECT_EQ(said(model_file(some, true)), "byte_fallback with 255 byte pieces: wanted 256");
  EXPECT_EQ(said(model_file({}, true)), "byte_fallback with 0 byte pieces: wanted 256");
  EXPECT_EQ(said(model_file(all, false)), "byte piece '<0x00>' in a model without byte_fallback");
  some.push_back("<0xff>");
  EXPECT_EQ(said(model_file(some, true)), "byte piece '<0xff>': wanted <0x00> to <0xFF>");
  EXPECT_EQ(said(model_file(all, true, 2)), "wanted one unknown piece, found 2");
  EXPECT_EQ(said(model_file(all, true, 0)), "wanted one unknown piece, found 0");
}

TEST(TokenizerStrictness, of_a_word_that_stands_twice_in_a_vocab_txt_the_last_line_counts_and_is_told) {
  const ScratchDirectory dir;
  TokenizerSpec spec;
  spec.type = "BertWordPieceLowerCase";
  spec.vocab_file = dir.file("vocab.txt", "[UNK]\n[SEP]\n[CLS]\nab\nc\n##d\nab\n##d\nx \n");
  ::testing::internal::CaptureStderr();
  const auto tokenizer = make_tokenizer(spec);
  const std::string talk = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(talk.find("2 lines whose token stands again"), std::string::npos) << talk;
  EXPECT_EQ(tokenizer->encode("ab cd abd x"), (std::vector<Id>{6, 4, 7, 6, 7, 8}));
  EXPECT_EQ(tokenizer->vocab_size(), 9);
}

// Pointers of every member of every object, lists walked through.
void pointers_of(const Json& json, const std::string& at, std::vector<std::string>& all) {
  if (json.is_object())
    for (const auto& [key, value] : json.items()) {
      const std::string here = at + "/" + key;
      all.push_back(here);
      pointers_of(value, here, all);
    }
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) pointers_of(json[i], at + "/" + std::to_string(i), all);
}

void erase(Json& file, const std::string& pointer) {
  const std::size_t slash = pointer.rfind('/');
  Json& parent = slash == 0 ? file : file.at(Json::json_pointer(pointer.substr(0, slash)));
  parent.erase(pointer.substr(slash + 1));
}

// What tokenizers 0.23.3 loads a file without; every other member of the files above it asks for.
const std::set<std::string> kMayBeMissing = {
    "/version", "/truncation", "/padding", "/normalizer", "/pre_tokenizer", "/post_processor", "/decoder",
    "/normalizer/normalizers/0/strip_accents", "/pre_tokenizer/pretokenizers/2/behavior", "/pre_tokenizer/pretokenizers/4/length",
    "/pre_tokenizer/pretokenizers/5/prepend_scheme", "/pre_tokenizer/pretokenizers/5/split",
    "/pre_tokenizer/pretokenizers/5/add_prefix_space", "/pre_tokenizer/pretokenizers/6/use_regex",
    "/decoder/decoders/0/prepend_scheme", "/decoder/decoders/0/split", "/decoder/decoders/0/add_prefix_space",
    "/decoder/decoders/6/use_regex", "/model/type", "/model/dropout", "/model/continuing_subword_prefix",
    "/model/end_of_word_suffix", "/model/fuse_unk", "/model/byte_fallback", "/model/ignore_merges", "/model/unk_id"};

// Where this reader asks for more: a type is not guessed from the other fields, and what a post-processor puts around a
// text must be a token.
bool asked_for_here(const std::string& pointer) {
  return (pointer.ends_with("/type") && pointer != "/model/type") || pointer == "/added_tokens" ||
         pointer == "/post_processor/special_tokens/[X]";
}

TEST(TokenizerStrictness, a_missing_field_is_refused_where_the_library_refuses_it) {
  int refused = 0, taken = 0;
  for (const char* model : {kBpe, kUnigram, kWordPiece, kWordLevel}) {
    const Json whole = whole_file(model);
    EXPECT_EQ(refusal(whole), "");
    const bool needs_unknown = model == kWordPiece || model == kWordLevel, needs_prefix = model == kWordPiece;
    std::vector<std::string> all;
    pointers_of(whole, "", all);
    for (const std::string& pointer : all) {
      if (pointer.starts_with("/model/vocab/") || (model != kBpe && !pointer.starts_with("/model/"))) continue;
      const bool may = (kMayBeMissing.count(pointer) > 0 && !(needs_prefix && pointer == "/model/continuing_subword_prefix")) ||
                       (pointer == "/model/unk_token" && !needs_unknown);
      Json file = whole;
      erase(file, pointer);
      EXPECT_EQ(refusal(file) == "", may && !asked_for_here(pointer)) << pointer << ": " << refusal(file);
      (may ? taken : refused) += 1;
    }
  }
  EXPECT_GE(refused, 90);
  EXPECT_GE(taken, 30);
  Json file = whole_file(kBpe);
  file["padding"] = {{"strategy", "BatchLongest"}, {"direction", "Right"}, {"pad_id", 3}, {"pad_type_id", 0}, {"pad_token", "[X]"}};
  file["truncation"] = {{"max_length", 5}, {"strategy", "LongestFirst"}, {"stride", 0}};
  EXPECT_EQ(refusal(file), "");
  for (const char* part : {"padding", "truncation"}) {
    const Json whole = file[part];
    for (const auto& [key, value] : whole.items()) {
      Json less = file;
      less[part].erase(key);
      EXPECT_NE(refusal(less), "") << part << "." << key;
    }
  }
}

TEST(TokenizerStrictness, post_processors_ask_for_what_the_library_asks_for) {
  const std::pair<const char*, std::set<std::string>> kinds[] = {  // and what may be missing
      {R"({"type": "BertProcessing", "sep": ["[X]", 3], "cls": ["[X]", 3]})", {}},
      {R"({"type": "RobertaProcessing", "sep": ["[X]", 3], "cls": ["[X]", 3], "trim_offsets": true, "add_prefix_space": true})",
       {"trim_offsets", "add_prefix_space"}},
      {R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})", {"use_regex"}}};
  for (const auto& [text, may] : kinds) {
    Json file = whole_file(kBpe);
    file["post_processor"] = parse_json(text, "here");
    EXPECT_EQ(refusal(file), "") << text;
    const Json whole = file["post_processor"];
    for (const auto& [key, value] : whole.items()) {
      Json less = file;
      less["post_processor"].erase(key);
      EXPECT_EQ(refusal(less) == "", may.count(key) > 0) << text << " without " << key;
    }
  }
}

}  // namespace
}  // namespace mt::tokenizer
