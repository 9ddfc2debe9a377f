#pragma once
// SentencePiece models, BPE and unigram, id for id as the library encodes them.
//
// BPE: scores rank the merges, whatever two symbols make a piece; user-defined pieces are cut out first. Unigram: ids
// are those of one Viterbi over the whole text in single precision, since rounding decides near-ties; words whose best cut no
// rounding can change are remembered (tokenizer/unigram.h). Unknown characters in a row are one
// unknown piece, or their bytes.
// Code: tokenizer/sentencepiece_tokenizer.cc. Tests: tests/tokenizer/sentencepiece_test.cc.

#include <memory>
#include <optional>
#include <variant>

#include "tokenizer/added_tokens.h"
#include "tokenizer/character_bpe.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unigram.h"

namespace mt::tokenizer {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  // `eod_token`: the piece that ends documents; by default the model's own end.
  //   fails  Error{data}: a model of words or characters, unused pieces in a BPE, a denormalizer; an eod_token that is
  //          no piece
  SentencePieceTokenizer(SentencePieceModel model, const std::optional<std::string>& eod_token, bool parse_special);

  // Control pieces in the text are plain text unless parse_special.
  //   fails  Error{data}: a text above 1 GiB
  //   cost   BPE: as the word cache; unigram: 16 bytes of scratch a byte of text
  void encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const override;
  // Control pieces give nothing; unknown ones the model's own mark for them.
  void decode(std::span<const Id> ids, std::string& out) const override;
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(model_.pieces.size()); }
  std::optional<Id> eod() const override { return eod_; }
  std::optional<Id> unknown() const override { return unknown_ < 0 ? std::nullopt : std::optional<Id>(unknown_); }
  std::optional<Id> find(std::string_view token) const override;
  std::string_view spelling(Id id) const override;
  std::vector<Id> special_ids() const override;  // the control pieces
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  void encode_normalized(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const;
  void encode_mergeable(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const;
  void settle_unknown(WordsOfSymbols& words) const;
  std::uint64_t hash_parts() const;

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::optional<CharacterBpe> bpe_;
  std::optional<Unigram> unigram_;
  std::vector<std::string> outside_;  // characters of pieces that are no piece: ids from vocab_size() on, while merging
  std::int32_t unknown_ = -1, byte_ids_[256];
  AddedTokenMatcher controls_;
  bool parse_special_, keeps_spaces_ = false;  // the BPE is over spaces, not U+2581
  std::optional<Id> eod_;
  std::uint64_t fingerprint_ = 0;
};

// spec.model is the file, or a directory with a tokenizer.model.   fails  as the parts
std::unique_ptr<Tokenizer> load_sentencepiece(const TokenizerSpec& spec);

}  // namespace mt::tokenizer
