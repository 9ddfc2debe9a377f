#pragma once
// BPE over characters: the model of LLaMA-2, Mistral and Gemma, and of older tokenizers with word prefixes and suffixes.
//
// The first symbols of a piece are its characters; one without a token becomes the tokens of its bytes (byte_fallback),
// else the unknown token, else an error. Files of this kind often cut the text nowhere, so that a document is one piece.
// It need not be merged as one: where two neighbouring characters stand side by side in no token, no merge ever
// crosses. The pairs that do occur are kept as a set of hashes, and pieces are cut at all others, which leaves words
// short enough for the word cache.
// Code: tokenizer/character_bpe.cc. Tests: tests/tokenizer/piece_models_test.cc, golden_tokenizers_test.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/cut_text.h"
#include "tokenizer/token_table.h"

namespace mt::tokenizer {

struct CharacterBpeParts {
  TokenTable tokens;          // as the file spells them, without added tokens the model lacks; sealed
  std::vector<Merge> merges;  // in order of rank
  std::string unknown;        // the unknown token, or empty: characters without a token are an error
  std::string prefix, suffix;  // continuing_subword_prefix, end_of_word_suffix
  bool byte_fallback = false, fuse_unknown = false, ignore_merges = false;
  // SentencePiece's rule: of two merges with equal `order` the leftmost goes first. Empty: ranks are places.
  std::vector<std::uint32_t> order;
};

class CharacterBpe {
 public:
  //   fails  Error{corrupt}: the unknown token is not in the vocabulary; those of MergeTable
  explicit CharacterBpe(CharacterBpeParts parts);

  // Append the ids of pieces to `ids`, a word each; `first` is scratch.
  //   fails  Error{data}: a character without a token, and no unknown token (the reference leaves it out in silence)
  void encode(std::span<const std::string_view> pieces, WordsOfSymbols& first, WordsOfSymbols& ids) const;

  // Whether it is known where no merge crosses, so that next() has places to cut at.
  bool cuts() const { return !pairs_.empty(); }
  // The next parts of one piece from `position` on, in bytes, at most lengths.size() of them; merged each for itself they
  // are the piece merged as one.
  //   needs  cuts(); valid UTF-8 below 4 GiB; position at a part's start; 65 lengths or more
  //   gives  how many were written; position moves to the end of the last; 0 at the end
  //   cost   about 1 GB/s for ASCII (blocks of 64 bytes); else a look into a table of 128 KiB a character
  std::size_t next(std::string_view piece, std::size_t& position, std::span<std::uint32_t> lengths) const;
  // The same for all pieces of a text at once; `pieces` is left as it is where cuts() is false.
  void cut(std::string_view text, std::vector<TextSpan>& pieces) const;

  // The same model over text in which `character` is written as a space, or nothing where that cannot be told apart: it
  // is no token, or a token holds a space. Words are then shorter, and plain text needs no copy with U+2581 for spaces.
  static std::optional<CharacterBpeParts> with_spaces_for(const CharacterBpeParts& parts, std::string_view character);

  // Text that decides ids beside vocabulary and merges, for fingerprints.
  std::string description() const;
  const CharacterBpeParts& parts() const { return parts_; }
  std::int32_t unknown() const { return unknown_; }  // -1: none

 private:
  void first_symbols(std::string_view piece, std::vector<std::int32_t>& ids) const;
  bool add_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const;
  std::int32_t id_of(std::string_view piece, std::size_t begin, std::size_t end) const;
  void find_neighbours();
  bool merges_stay_inside() const;
  bool may_join(std::uint32_t left, std::uint32_t right) const {
    if ((left | right) < 0x80) return (ascii_pairs_[left * 2 + (right >> 6)] >> (right & 63) & 1) != 0;
    const std::uint32_t bit = (left * 0x9E3779B1u ^ right * 0x85EBCA77u) >> (32 - kPairBits);
    return (pairs_[bit >> 6] >> (bit & 63) & 1) != 0;
  }

  static constexpr int kPairBits = 20;
  CharacterBpeParts parts_;
  MergeTable merges_;
  std::vector<std::int32_t> char_ids_;  // by code point; -1: none
  std::int32_t byte_ids_[256];
  std::int32_t unknown_ = -1;
  std::vector<std::uint64_t> pairs_;      // bit set; empty: pieces are not cut
  std::uint64_t ascii_pairs_[256] = {};  // the same of ASCII, exactly: 128 bits a left character
};

}  // namespace mt::tokenizer
