#pragma once
// Byte-level BPE: the tokenizer of GPT-2, LLaMA-3, Qwen and of our own trainer.
//
// The text is cut at added tokens, normalised (NFC or not at all), cut by a split pattern, and each piece's bytes are
// merged. Files write a byte as one printable character; byte_to_char and bytes_of_token translate.
// Code: tokenizer/byte_level_bpe.cc. Tests: tests/tokenizer/byte_level_bpe_test.cc, tests/tokenizer/golden_tokenizers_test.cc.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/character_borders.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"

namespace mt::tokenizer {

// Everything a byte-level BPE is made of, as read from its files.
struct ByteLevelBpeParts {
  TokenTable tokens;          // true bytes of every id, added tokens included; sealed
  std::vector<Merge> merges;  // in order of rank
  std::vector<std::uint32_t> order;  // ranks, where they are not the places (tiktoken: that of what a merge makes)
  SplitPattern pattern;
  bool nfc = false;               // normalise first
  bool ignore_merges = false;     // a piece that is a token is that token, whatever the merges say
  bool add_prefix_space = false;  // a space before text that has none
  std::optional<Id> unknown;      // for bytes without a token
  std::vector<AddedToken> added;
  std::vector<Id> added_only;  // ids of added tokens the model itself lacks; no piece ever becomes one of these
  std::optional<Id> eod;
  Surround surround;
  bool parse_special = false;
};

class ByteLevelBpe final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  explicit ByteLevelBpe(ByteLevelBpeParts parts);

  void encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const override;
  void decode(std::span<const Id> ids, std::string& out) const override { parts_.tokens.decode(ids, out); }
  std::int32_t vocab_size() const override { return parts_.tokens.size(); }
  std::optional<Id> eod() const override { return parts_.eod; }
  std::optional<Id> unknown() const override { return parts_.unknown; }
  std::optional<Id> find(std::string_view token) const override { return parts_.tokens.find(token); }
  std::string_view spelling(Id id) const override {
    return parts_.tokens.has(id) ? parts_.tokens.token(id) : std::string_view();
  }
  std::vector<Id> special_ids() const override { return special_ids_of(parts_.added); }
  const Surround& surround() const override { return parts_.surround; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  void encode_normalized(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const;
  void encode_plain(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const;
  std::optional<Id> whole_token(std::string_view piece) const;
  void encode_new(std::span<const std::string_view> pieces, EncodeScratch& scratch, WordsOfSymbols& ids) const;
  void look_for(MissScratch::Part& part, const EncodeScratch& scratch) const;
  void encode_parts(EncodeScratch& scratch, WordsOfSymbols& ids) const;
  void check_bytes(std::string_view piece) const;
  std::uint64_t hash_parts() const;

  ByteLevelBpeParts parts_;
  MergeTable merges_;
  std::optional<CharacterBorders> borders_;  // none: pieces are merged whole
  std::array<Id, 256> byte_ids_{};  // -1: no token
  bool all_bytes_ = false;
  AddedTokens added_;
  std::uint64_t fingerprint_ = 0;
};

// The printable character files use for a byte: itself for 33-126, 161-172, 174-255; the others are U+0100 onwards in
// byte order.
std::uint32_t byte_to_char(std::uint8_t byte);
// A token as files write it, and back. A token with a character that stands for no byte is taken as it is (added
// tokens).
std::string token_of_bytes(std::string_view bytes);
std::string bytes_of_token(std::string_view token);

}  // namespace mt::tokenizer
