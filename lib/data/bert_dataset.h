#pragma once
// BERT's samples: two runs of sentences, perhaps in the wrong order, with words masked; exactly Megatron's.
//
//   text  [CLS] A [SEP] B [SEP] [PAD]...     types  0 over A, 1 over B
// Sample k is drawn with RandomState((seed + k) mod 2^32), so it does not depend on what else was read.
// Source: facts of Megatron-LM core 0.20 (BERTMaskedWordPieceDataset).
// Code: data/bert_dataset.cc. Tests: tests/data/masked_dataset_test.cc (vectors from Megatron's code).

#include <cstdint>
#include <vector>

#include "data/masked_dataset.h"

namespace mt::data {

struct BertOptions {
  std::int64_t num_samples = 0;  // 0: one epoch
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
  double short_seq_prob = 0.1;
  bool sentence_pairs = true;  // the binary head: A and B, swapped with probability 0.5; else A alone
  MaskingOptions masking;
};

// Megatron's keys. Vectors are seq_length long.
struct BertSample {
  std::vector<Id> text;
  std::vector<std::int32_t> types, labels;  // labels: what stood at masked places, -1 elsewhere
  std::vector<std::int32_t> loss_mask, padding_mask;  // 1 at masked places; 1 before the padding
  bool is_random = false, truncated = false;          // B stands before A; tokens were cut off
};

class BertDataset {
 public:
  // Documents [begin, end) of the file.
  //   needs  `tokens` outlives this; seq_length >= 5
  //   fails  as build_sentence_runs
  BertDataset(const IndexedDataset& tokens, SequenceRange documents, const WordPieces& pieces,
              const BertOptions& options);

  std::int64_t size() const { return static_cast<std::int64_t>(runs_.size()); }
  const std::vector<SentenceRun>& runs() const { return runs_; }

  // Sample k.   needs  0 <= k < size()
  BertSample fetch(std::int64_t k) const;

 private:
  const IndexedDataset* tokens_;
  WordPieces pieces_;
  BertOptions options_;
  std::vector<SentenceRun> runs_;
};

// The same from the sentences themselves.   needs  one sentence or more, with sentence_pairs two
BertSample make_bert_sample(const std::vector<std::vector<Id>>& sentences, std::int32_t target, std::int64_t k,
                            const WordPieces& pieces, const BertOptions& options);

}  // namespace mt::data
