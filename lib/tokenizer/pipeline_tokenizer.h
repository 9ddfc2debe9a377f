#pragma once
// The tokenizers of tokenizer.json that are not plain byte-level BPE: any normalizer, pre-tokenizer, model and decoder.
//
// The text is cut at added tokens, normalised, cut again at added tokens that are searched in normalised text, cut by
// the pre-tokenizer, and each piece goes through the model, by way of the thread's word cache.
// Code: tokenizer/pipeline_tokenizer.cc. Tests: tests/tokenizer/peer_vectors_test.cc, golden_tokenizers_test.cc.

#include <optional>
#include <variant>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bert_words.h"
#include "tokenizer/character_bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_piece.h"

namespace mt::tokenizer {

using PieceModel = std::variant<CharacterBpe, Unigram, WordPiece, WordLevel>;

struct PipelineParts {
  TokenTable tokens;  // as the file spells them, added tokens included; sealed
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  PieceModel model;
  // Text is written with spaces for this character and has one in front if `prepends_space`; that is all the normalizer
  // and the pre-tokenizer come to, and the model is a CharacterBpe over such text. Empty: do as they say.
  std::string space_character;
  bool prepends_space = false;
  TokenDecoder decoder;
  std::vector<AddedToken> added;
  std::optional<Id> eod;
  Surround surround;
  bool parse_special = false;
};

class PipelineTokenizer final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  explicit PipelineTokenizer(PipelineParts parts);

  void encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const override;
  void decode(std::span<const Id> ids, std::string& out) const override;
  std::int32_t vocab_size() const override { return parts_.tokens.size(); }
  std::optional<Id> eod() const override { return parts_.eod; }
  std::optional<Id> unknown() const override {
    const Id id = std::visit([](const auto& model) { return model.unknown(); }, parts_.model);
    return id < 0 ? std::nullopt : std::optional<Id>(id);
  }
  std::optional<Id> find(std::string_view token) const override { return parts_.tokens.find(token); }
  std::string_view spelling(Id id) const override {
    return parts_.tokens.has(id) ? parts_.tokens.token(id) : std::string_view();
  }
  std::vector<Id> special_ids() const override { return special_ids_of(parts_.added); }
  const Surround& surround() const override { return parts_.surround; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  void encode_spaced(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const;
  void encode_parts(std::string_view text, bool spaced, EncodeScratch& scratch, std::vector<Id>& out) const;
  void encode_plain(std::string_view text, bool at_start, EncodeScratch& scratch, std::vector<Id>& out) const;
  void encode_cut(EncodeScratch& scratch, std::vector<Id>& out) const;
  std::uint64_t hash_parts() const;

  PipelineParts parts_;
  AddedTokens added_;
  const CharacterBpe* spaced_ = nullptr;  // the model, where text needs no more than spaces
  std::optional<BertWords> bert_;         // what normalizer and pre-tokenizer come to
  std::uint64_t fingerprint_ = 0;
};

}  // namespace mt::tokenizer
