#pragma once
// T5's samples: spans of a text are taken out and a sentinel is left for each; the decoder writes them; exactly
// Megatron's.
//
//   encoder  x x <0> x <1> x [PAD]...     decoder  BOS <0> a a <1> b [PAD]...     labels  <0> a a <1> b EOS -1...
// Sample k is drawn with RandomState((seed + k) mod 2^32).
// Source: facts of Megatron-LM core 0.20 (T5MaskedWordPieceDataset).
// Code: data/t5_dataset.cc. Tests: tests/data/masked_dataset_test.cc (vectors from Megatron's code).

#include <cstdint>
#include <vector>

#include "data/masked_dataset.h"

namespace mt::data {

struct T5Options {
  T5Options() {
    masking.max_ngram = 10;
    masking.geometric = true;
    masking.always_mask = true;
  }
  std::int64_t num_samples = 0;  // 0: one epoch
  std::int64_t seq_length = 0, decoder_seq_length = 128;
  std::uint32_t seed = 1234;
  double short_seq_prob = 0.1;
  MaskingOptions masking;
};

// Megatron's keys; the first two and their masks are seq_length and decoder_seq_length long.
struct T5Sample {
  std::vector<Id> text_enc, text_dec;
  std::vector<std::int32_t> labels, loss_mask;  // of the decoder
  std::vector<std::int32_t> enc_mask, dec_mask;  // 1 before the padding
  bool truncated = false;
};

class T5Dataset {
 public:
  // Documents [begin, end) of the file.
  //   needs  `tokens` outlives this; seq_length >= 4
  //   fails  as build_sentence_runs
  T5Dataset(const IndexedDataset& tokens, SequenceRange documents, const WordPieces& pieces, const T5Options& options);

  std::int64_t size() const { return static_cast<std::int64_t>(runs_.size()); }
  const std::vector<SentenceRun>& runs() const { return runs_; }

  // Sample k.   needs  0 <= k < size()
  //   fails  Error{data}: more spans than sentinels, or a decoder sequence that is too short, naming the flag
  T5Sample fetch(std::int64_t k) const;

 private:
  const IndexedDataset* tokens_;
  WordPieces pieces_;
  T5Options options_;
  std::vector<SentenceRun> runs_;
};

// The same from the tokens of the sample's sentences.
T5Sample make_t5_sample(std::vector<Id> ids, std::int32_t target, std::int64_t k, const WordPieces& pieces,
                        const T5Options& options);

}  // namespace mt::data
