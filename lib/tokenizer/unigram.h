#pragma once
// The unigram model: the most likely way to cut a piece into tokens that have a score each.
//
// Viterbi over the characters, tokens found by walking a trie; an unknown character costs the lowest score less 10.
// Two programs make such models and round differently, and near-ties decide ids, so both are followed: Hugging Face's
// library adds in double precision, SentencePiece keeps the best score of each place in single precision and
// starts them anew at 100,000. Ids are those of SentencePiece 0.2.3; older versions differ here, and in how much they
// prefer user-defined pieces.
// Code: tokenizer/unigram.cc. Tests: tests/tokenizer/piece_models_test.cc (every cut tried), peer_vectors_test.cc.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/long_word_cache.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/word_cache.h"

namespace mt::tokenizer {

enum class UnigramRounding { huggingface, sentencepiece };

struct UnigramParts {
  struct Piece {
    std::string text;   // empty: an id that no text gives
    double score = 0;
    bool user_defined = false;  // always preferred (SentencePiece): its score is a tenth of its bytes less one
  };
  std::vector<Piece> pieces;   // by id
  std::int32_t unknown = -1;   // id for characters without a token; -1: they are an error
  std::int32_t byte_ids[256];  // for byte_fallback; -1: not there
  bool byte_fallback = false;  // an unknown stretch becomes the tokens of its bytes if all are there
  UnigramRounding rounding = UnigramRounding::huggingface;
  double min_score = 0;  // over ordinary pieces
};

// Scratch of a thread.
struct UnigramScratch {
  struct Node {
    double score = 0;
    std::int32_t begin = -1, id = -1;
  };
  std::vector<Node> nodes;
  std::vector<double> seconds;     // the best but one of each place
  std::vector<std::int32_t> word;  // ids of a word
};

// What a thread remembers of words, and its scratch.
struct UnigramCaches {
  WordCache& words;
  LongWordCache& long_words;
  UnigramScratch& scratch;
};

class Unigram {
 public:
  //   fails  Error{corrupt}: an unknown id outside the vocabulary, a score that is no number
  explicit Unigram(UnigramParts parts);

  // Append the ids of a piece. Unknown characters in a row are one unknown.
  //   needs  valid UTF-8 below 1 GiB
  //   fails  Error{data}: a character without a token and no unknown id
  //   cost   steps of the trie, a few a byte; 16 bytes of scratch a byte
  void encode(std::string_view piece, UnigramScratch& scratch, std::vector<std::int32_t>& ids) const;

  // The same for a whole text of SentencePiece, word by word by way of the caches.
  //
  // A word begins at U+2581 behind another character; where no token goes over such a place, every way to cut the text
  // passes there, and a word depends on what is before it by rounding alone. So words whose best cut is ahead of every
  // other by more than rounding can make are remembered with their ids, and the score is added up along them as the
  // library does it. All others are worked out from the score at which they stand.
  //   needs  words_stand_apart(); caches that nothing else writes
  //   fails  as encode
  //   cost   one look-up for a word that is remembered; two walks for one that is not and has near ties
  void encode_words(std::string_view text, UnigramCaches caches, std::vector<std::int32_t>& ids) const;
  bool words_stand_apart() const { return words_stand_apart_; }

  std::string description() const;
  const UnigramParts& parts() const { return parts_; }
  std::int32_t unknown() const { return parts_.unknown; }  // -1: none

 private:
  template <class Offer>
  bool tokens_at(std::string_view text, std::size_t begin, std::size_t next, const Offer& offer) const;
  template <bool single>
  void find_best(std::string_view piece, double start, std::vector<UnigramScratch::Node>& nodes) const;
  double encode_from(double start, std::string_view piece, UnigramScratch& scratch, std::vector<std::int32_t>& ids) const;
  double encode_word(double start, std::string_view word, std::span<const std::int32_t> known, UnigramScratch& scratch,
                     std::vector<std::int32_t>& ids) const;
  bool is_certain(std::string_view word, UnigramScratch& scratch) const;
  std::span<const std::int32_t> ids_to_keep(std::string_view word, UnigramScratch& scratch) const;
  double encode_words(std::string_view text, std::span<const std::uint32_t> lengths, double score, UnigramCaches caches,
                      std::vector<std::int32_t>& ids) const;
  void add_unknown(std::string_view text, std::vector<std::int32_t>& ids) const;
  UnigramParts parts_;
  PrefixTrie trie_;
  std::vector<double> scores_;  // by id; user-defined ones are NaN
  double largest_step_ = 0;     // how far one character can change a score
  bool words_stand_apart_ = false;
};

}  // namespace mt::tokenizer
