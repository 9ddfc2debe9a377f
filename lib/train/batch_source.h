#pragma once
// Where micro-batches come from: a token file (or a made-up one) and the sampler, cut for one data-parallel rank.
//
// Micro-batch m of the step at `consumed` samples holds the ordinals data/sampler.h says: the same samples at the same
// step for every data-parallel size. Code: train/batch_source.cc. Tests: tests/train/batch_source_test.cc.

#include <memory>

#include "data/blend.h"
#include "data/sample_masks.h"
#include "engine/batch.h"
#include "train/training_options.h"

namespace mt {

class BatchSource {
 public:
  // Token ids of sample `ordinal`: fill seq_length + 1, return the number of real ones.
  using Fetch = std::function<std::int64_t(std::int64_t ordinal, std::span<std::int32_t> out)>;

  BatchSource(Fetch fetch, const BatchSpec& batch, const data::MaskOptions& masks);

  // The micro-batches of one step on one data-parallel rank.
  std::vector<HostBatch> step(std::int64_t consumed, int dp, int dp_rank) const;

 private:
  void append(std::int64_t ordinal, HostBatch& batch) const;
  Fetch fetch_;
  BatchSpec batch_;
  data::MaskOptions masks_;
};

// The data of a run: its sets, and what is known about the vocabulary.
struct RunData {
  std::unique_ptr<data::Splits> splits;
  std::unique_ptr<BatchSource> train, valid;  // valid may be absent
  std::string tokenizer_fingerprint;
};

// The true vocabulary size: --vocab-size, else the tokenizer's, else the token files' sidecar.
//   fails  Error{config} when nothing says it, naming the three ways; when two disagree
std::int64_t vocab_size_of(const DataOptions& options);
// Open token files (or mock data).
//   fails  as data::build_splits; Error{config} when there is no data path. Fetching: Error{data} for an id that the
//          vocabulary does not have
RunData open_data(const TrainingOptions& options, std::int64_t vocab_size);

}  // namespace mt
