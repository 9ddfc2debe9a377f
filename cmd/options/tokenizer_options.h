#pragma once
// The tokenizer flags, spelled as Megatron spells them, for every tool that turns text into ids or back.
//
// Needs `spec` to outlive the table. Tests: tests/cli/.

#include <string>

#include "base/options.h"
#include "tokenizer/tokenizer.h"

namespace mt::options {

struct TokenizerFlags {
  std::string type = "HuggingFaceTokenizer", model, vocab_file, merge_file;
  std::optional<std::string> eod_token;
  std::string tiktoken_pattern;
  int vocab_size = 0, tiktoken_num_special_tokens = 1000;
  bool parse_special = false, no_include_special = false;

  void add(OptionTable& table) {
    table.group("Tokenizer");
    OptionRow& row = table.add("tokenizer-type", type, "T", "kind of tokenizer");
    for (const std::string_view name : tokenizer::tokenizer_types()) row.choices.emplace_back(name);
    table.add("tokenizer-model", model, "FILE",
              "the tokenizer's file: tokenizer.json, a SentencePiece .model; or the directory that holds it");
    table.add("vocab-file", vocab_file, "FILE", "vocab.json (GPT2BPETokenizer) or vocab.txt (BertWordPiece...)");
    table.add("merge-file", merge_file, "FILE", "merges.txt (GPT2BPETokenizer)");
    table.add("tokenizer-hf-no-include-special-tokens", no_include_special, "",
              "nothing around texts, whatever the post-processor says (HuggingFaceTokenizer)");
    table.add("eod-token", eod_token, "S", "token that ends a document; by default the tokenizer's own");
    table.add("vocab-size", vocab_size, "N", "number of ids (NullTokenizer; TikTokenizer with a JSON list)");
    table.add("tiktoken-pattern", tiktoken_pattern, "P",
              "how text is cut (TikTokenizer): gpt2, p50k, cl100k, o200k, v1, v2 or a regex; JSON lists: v2");
    table.add("tiktoken-num-special-tokens", tiktoken_num_special_tokens, "N",
              "special tokens before those of a JSON list (TikTokenizer)");
    table.add("parse-special", parse_special, "", "special strings in documents become control tokens");
  }

  tokenizer::TokenizerSpec spec() const {
    tokenizer::TokenizerSpec s;
    s.type = type;
    s.model = model;
    s.vocab_file = vocab_file;
    s.merge_file = merge_file;
    s.eod_token = eod_token;
    s.vocab_size = vocab_size;
    s.tiktoken_pattern = tiktoken_pattern;
    s.tiktoken_num_special_tokens = tiktoken_num_special_tokens;
    s.parse_special = parse_special;
    s.include_special = !no_include_special;
    return s;
  }
};

}  // namespace mt::options
