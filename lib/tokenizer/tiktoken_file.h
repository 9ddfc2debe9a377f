#pragma once
// Tokenizer files that list tokens by rank: .tiktoken, the JSON list that Megatron reads, and Mistral's Tekken.
//
//   .tiktoken      a line a token: base64, a space, the rank; the rank is the id. Pattern and special tokens are not in
//                  the file: --tiktoken-pattern names both
//   JSON list      [{rank, token_bytes, token_str}]; ids are ranks after --tiktoken-num-special-tokens special ones:
//                  <unk> <s> </s> <mask> <pad> <cls> <sep> <SPECIAL_7> ...; cut off at --vocab-size (131072)
//   Tekken         {config, vocab: such a list, special_tokens}; pattern, sizes and special tokens are in the file
// A piece that is a token is that token; else neighbours merge, the pair whose bytes have the lowest rank first.
// Code: tokenizer/tiktoken_file.cc. Tests: tests/tokenizer/tiktoken_test.cc.

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace mt::tokenizer {

// spec.model is the file; spec.tiktoken_pattern is gpt2, p50k, cl100k, o200k, v1, v2 or a regex.
//   fails  Error{io}; Error{corrupt}: a line or an entry that is none, a rank or token twice; Error{data}: a byte
//          without a token, no pattern where the file has none, an --eod-token that is no token; Error{usage}: sizes
//          that leave no room for tokens
std::unique_ptr<Tokenizer> load_tiktoken(const TokenizerSpec& spec);

}  // namespace mt::tokenizer
