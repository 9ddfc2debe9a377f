#pragma once
// Learn a byte-level BPE vocabulary from text.
//
// Pieces are cut by GPT-2's pattern and counted; then the most frequent adjacent pair becomes a token, again and again.
// Ties go to the pair with the lowest ids (left, then right), so the result is a function of the text alone, and equals
// what Hugging Face's BpeTrainer gives with the byte alphabet and the same documents.
// Code: data/bpe_trainer.cc. Tests: tests/data/bpe_trainer_test.cc.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe.h"

namespace mt::data {

struct BpeTrainerOptions {
  std::int32_t vocab_size = 0;                           // special tokens and the 256 bytes included
  std::int64_t min_frequency = 0;                        // a pair seen less often is not merged
  std::vector<std::string> special = {"<|endoftext|>"};  // ids from 0 on
};

struct TrainedBpe {
  std::vector<std::string> special;  // ids 0 .. special.size() - 1
  std::vector<std::string> tokens;   // bytes of every id, special tokens included
  std::vector<Merge> merges;
};

class BpeTrainer {
 public:
  //   fails  Error{usage}: vocab_size below special + 256, or above 2^30; min_frequency below 0; a special token that
  //          is empty, there twice, the spelling of a byte, or not UTF-8
  explicit BpeTrainer(BpeTrainerOptions options);
  ~BpeTrainer();
  BpeTrainer(const BpeTrainer&) = delete;
  BpeTrainer& operator=(const BpeTrainer&) = delete;

  // Count the pieces of a document.   needs  valid UTF-8
  void add(std::string_view document);

  // Merge until vocab_size is reached or no pair is left (then tokens.size() < vocab_size).
  //   progress  called now and then with the tokens there are
  //   cost      4 MB of English to 4,096 tokens: about a second
  TrainedBpe train(const std::function<void(std::int64_t)>& progress = {});

  std::int64_t num_pieces() const;
  std::int64_t num_distinct_pieces() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mt::data
