#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/sentencepiece_tokenizer.h"
#include "tokenizer/tiktoken_file.h"
#include "tokenizer/tokenizer_json.h"

namespace mt::tokenizer {

namespace {

struct Kind {
  std::string_view name;
  std::unique_ptr<Tokenizer> (*make)(const TokenizerSpec&);
};

void need(const std::filesystem::path& value, const TokenizerSpec& spec, const char* flag) {
  if (!value.empty()) return;
  const bool gpt2 = spec.type == "HuggingFaceTokenizer" && !spec.vocab_file.empty() && !spec.merge_file.empty();
  throw Error(Code::usage, fmt::format("{} needs {}", spec.type, flag), "",
              gpt2 ? "--tokenizer-type GPT2BPETokenizer reads --vocab-file and --merge-file" : "name its file");
}

// ByteTokenizer and NullTokenizer have one end token each.
std::unique_ptr<Tokenizer> without_eod_choice(const TokenizerSpec& spec, std::unique_ptr<Tokenizer> tokenizer) {
  if (spec.eod_token && *spec.eod_token != tokenizer->decode(std::vector<Id>{*tokenizer->eod()})) {
    throw Error(Code::data,
                fmt::format("{} has the end id {} and no token '{}'", spec.type, *tokenizer->eod(), *spec.eod_token),
                "--eod-token");
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> from_sentencepiece(const TokenizerSpec& spec) {
  need(spec.model, spec, "--tokenizer-model");
  return load_sentencepiece(spec);
}

constexpr Kind kKinds[] = {
    {"HuggingFaceTokenizer",
     [](const TokenizerSpec& spec) {
       need(spec.model, spec, "--tokenizer-model");
       return load_tokenizer_json(spec);
     }},
    {"SFTTokenizer",  // the same; text of conversations holds control tokens
     [](const TokenizerSpec& spec) {
       need(spec.model, spec, "--tokenizer-model");
       TokenizerSpec parsing = spec;
       parsing.parse_special = true;
       return load_tokenizer_json(parsing);
     }},
    {"GPT2BPETokenizer",
     [](const TokenizerSpec& spec) {
       need(spec.vocab_file, spec, "--vocab-file");
       need(spec.merge_file, spec, "--merge-file");
       return load_gpt2_bpe(spec);
     }},
    {"BertWordPieceLowerCase",
     [](const TokenizerSpec& spec) {
       need(spec.vocab_file, spec, "--vocab-file");
       return load_bert_vocab(spec, true);
     }},
    {"BertWordPieceCase",
     [](const TokenizerSpec& spec) {
       need(spec.vocab_file, spec, "--vocab-file");
       return load_bert_vocab(spec, false);
     }},
    {"SentencePieceTokenizer", from_sentencepiece},
    {"GPTSentencePieceTokenizer", from_sentencepiece},
    {"Llama2Tokenizer", from_sentencepiece},
    {"TikTokenizer",
     [](const TokenizerSpec& spec) {
       need(spec.model, spec, "--tokenizer-model");
       return load_tiktoken(spec);
     }},
    {"ByteTokenizer",
     [](const TokenizerSpec& spec) {
       return without_eod_choice(spec, std::make_unique<ByteTokenizer>(spec.parse_special));
     }},
    {"NullTokenizer",
     [](const TokenizerSpec& spec) {
       return without_eod_choice(spec, std::make_unique<NullTokenizer>(spec.vocab_size));
     }},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kKinds)> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kKinds[i].name;
  return names;
}();

}  // namespace

std::vector<Id> Tokenizer::encode(std::string_view text) const {
  EncodeScratch scratch;
  std::vector<Id> ids;
  encode(text, scratch, ids);
  return ids;
}

std::vector<Id> Tokenizer::encode_alone(std::string_view text) const {
  EncodeScratch scratch;
  std::vector<Id> ids = surround().before;
  encode(text, scratch, ids);
  ids.insert(ids.end(), surround().after.begin(), surround().after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const Id> ids) const {
  std::string text;
  decode(ids, text);
  return text;
}

std::optional<Id> Tokenizer::find(std::string_view) const { return std::nullopt; }

std::string_view Tokenizer::spelling(Id) const { return {}; }

std::vector<Id> Tokenizer::special_ids() const {
  return eod() ? std::vector<Id>{*eod()} : std::vector<Id>{};
}

const Surround& Tokenizer::surround() const {
  static const Surround none;
  return none;
}

std::span<const std::string_view> tokenizer_types() { return kNames; }

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec) {
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == spec.type; });
  if (kind == std::end(kKinds)) {
    std::string known;
    for (const std::string_view name : kNames) known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    throw Error(Code::usage, fmt::format("unknown tokenizer type '{}'", spec.type), "--tokenizer-type",
                "one of " + known);
  }
  return kind->make(spec);
}

Id require_eod(const Tokenizer& tokenizer) {
  if (const std::optional<Id> id = tokenizer.eod()) return *id;
  throw Error(Code::data,
              "the tokenizer names no end token, and not exactly one of <|endoftext|>, <|end_of_text|>, </s> "
              "is in it",
              "", "give --eod-token");
}

}  // namespace mt::tokenizer
