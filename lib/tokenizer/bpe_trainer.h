#pragma once
// Learn a BPE vocabulary from text: over bytes, as GPT-2's, or over characters, as SentencePiece's.
//
// Pieces are cut and counted; then the most frequent adjacent pair becomes a token, again and again. Ties go to the pair
// with the lowest ids (left, then right), so the result is a function of the text alone, and equals what Hugging Face's
// BpeTrainer gives on the same documents: with the byte alphabet and the pre-tokenizer ByteLevel, or with the byte tokens
// <0x00> to <0xFF> behind the special ones, the pre-tokenizer Metaspace and the same limit of the alphabet.
// Code: tokenizer/bpe_trainer.cc. Tests: tests/tokenizer/bpe_trainer_test.cc.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe.h"

namespace mt::tokenizer {

enum class BpeStyle {
  byte_level,    // symbols are bytes, pieces those of GPT-2's pattern
  sentencepiece  // symbols are characters, pieces words with U+2581 in front; unknown characters fall back to bytes
};

struct BpeTrainerOptions {
  std::int32_t vocab_size = 0;                           // special tokens and the 256 bytes included
  std::int64_t min_frequency = 0;                        // a pair seen less often is not merged
  std::vector<std::string> special = {"<|endoftext|>"};  // ids from 0 on
  BpeStyle style = BpeStyle::byte_level;
  // sentencepiece: only so many characters, the most frequent ones (of equal ones the lowest), get a token; 0: all.
  std::int64_t limit_alphabet = 0;
};

struct TrainedBpe {
  BpeStyle style = BpeStyle::byte_level;
  std::vector<std::string> special;  // ids 0 .. special.size() - 1
  std::vector<std::string> tokens;   // of every id, special ones included: its bytes, or its text with U+2581 for spaces
  std::vector<Merge> merges;
};

class BpeTrainer {
 public:
  //   fails  Error{usage}: vocab_size below special + 256, or above 2^30; min_frequency or limit_alphabet below 0, or the
  //          latter with byte_level; a special token that is empty, there twice, the spelling of a byte (or, with
  //          sentencepiece, a single character or a word with a space), or not UTF-8
  explicit BpeTrainer(BpeTrainerOptions options);
  ~BpeTrainer();
  BpeTrainer(const BpeTrainer&) = delete;
  BpeTrainer& operator=(const BpeTrainer&) = delete;

  // Count the pieces of a document.   needs  valid UTF-8, below 1 GiB
  void add(std::string_view document);

  // Merge until vocab_size is reached or no pair is left (then tokens.size() < vocab_size).
  //   fails     Error{data}: the characters alone are more than vocab_size has room for
  //   progress  called now and then with the tokens there are
  //   cost      4 MB of English to 4,096 tokens: about a second
  TrainedBpe train(const std::function<void(std::int64_t)>& progress = {});

  std::int64_t num_pieces() const;
  std::int64_t num_distinct_pieces() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mt::tokenizer
