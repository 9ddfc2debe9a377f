#pragma once
// Where micro-batches come from: a set of samples and the sampler, cut for one data-parallel rank.
//
// Micro-batch m of the step at `consumed` samples holds the ordinals data/sampler.h says: the same samples at the same
// step for every data-parallel size. Code: train/batch_source.cc. Tests: tests/train/layout_test.cc, sample_kinds_test.cc.

#include <functional>
#include <vector>

#include "data/sample_masks.h"
#include "engine/batch.h"
#include "train/training_options.h"

namespace mt {

class BatchSource {
 public:
  //   needs  samples of batch.seq_length tokens
  BatchSource(data::MakeSample make, const BatchSpec& batch);

  // The micro-batches of one step of `global_batch` samples on one data-parallel rank; without, of the options' batch.
  std::vector<HostBatch> step(std::int64_t consumed, int global_batch, int dp, int dp_rank) const;
  std::vector<HostBatch> step(std::int64_t consumed, int dp, int dp_rank) const {
    return step(consumed, batch_.global_batch, dp, dp_rank);
  }

 private:
  data::MakeSample make_;
  BatchSpec batch_;
};

}  // namespace mt
