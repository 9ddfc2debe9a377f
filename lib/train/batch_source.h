#pragma once
// Where micro-batches come from: a token file (or a made-up one) and the sampler, cut for one data-parallel rank.
//
// Micro-batch m of the step at `consumed` samples holds the ordinals data/sampler.h says: the same samples at the same
// step for every data-parallel size. Code: train/batch_source.cc. Tests: tests/train/batch_source_test.cc.

#include <functional>
#include <span>
#include <vector>

#include "data/sample_masks.h"
#include "engine/batch.h"
#include "train/training_options.h"

namespace mt {

class BatchSource {
 public:
  // Token ids of sample `ordinal`: fill seq_length + 1, return the number of real ones.
  using Fetch = std::function<std::int64_t(std::int64_t ordinal, std::span<std::int32_t> out)>;

  BatchSource(Fetch fetch, const BatchSpec& batch, const data::MaskOptions& masks);

  // The micro-batches of one step of `global_batch` samples on one data-parallel rank; without, of the options' batch.
  std::vector<HostBatch> step(std::int64_t consumed, int global_batch, int dp, int dp_rank) const;
  std::vector<HostBatch> step(std::int64_t consumed, int dp, int dp_rank) const {
    return step(consumed, batch_.global_batch, dp, dp_rank);
  }

 private:
  void append(std::int64_t ordinal, HostBatch& batch) const;
  Fetch fetch_;
  BatchSpec batch_;
  data::MaskOptions masks_;
};

}  // namespace mt
