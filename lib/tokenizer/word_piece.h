#pragma once
// The models that know whole words: WordPiece (BERT: the longest token first, then the longest that goes on, "##") and
// WordLevel (a word is a token or unknown).
//
// Code: tokenizer/word_piece.cc. Tests: tests/tokenizer/piece_models_test.cc, peer_vectors_test.cc.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/prefix_trie.h"
#include "tokenizer/token_table.h"

namespace mt::tokenizer {

struct WordPieceParts {
  std::string unknown = "[UNK]", prefix = "##";
  std::size_t max_characters = 100;  // a longer word is unknown
};

class WordPiece {
 public:
  //   needs  sealed tokens, without added tokens the model lacks
  WordPiece(const TokenTable& tokens, WordPieceParts parts);

  // Append the ids of a word; a word that cannot be spelled to its end is one unknown.
  //   fails  Error{data}: that, and the unknown token is not in the vocabulary
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;
  // From now on no text gives these ids (as the unknown token they still come).
  //   needs  the tokens of before; ids ascending
  //   cost   the tries are built again
  void hide(const TokenTable& tokens, const std::vector<std::int32_t>& ids);
  std::string description() const;
  std::int32_t unknown() const { return unknown_; }  // -1: none

 private:
  WordPieceParts parts_;
  PrefixTrie first_, next_;
  std::int32_t unknown_;
};

class WordLevel {
 public:
  WordLevel(const TokenTable& tokens, const std::string& unknown);
  void hide(const TokenTable& tokens, const std::vector<std::int32_t>& ids);  // as WordPiece::hide
  //   fails  Error{data}: a word that is no token, and the unknown token is none either
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::string description() const { return "word-level"; }
  std::int32_t unknown() const { return unknown_; }  // -1: none

 private:
  PrefixTrie words_;
  std::int32_t unknown_;
};

}  // namespace mt::tokenizer
