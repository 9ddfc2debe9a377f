#pragma once
// Which samples a step reads: a pure function of (consumed samples, global batch), so a resumed run continues exactly
// and another data-parallel size reads the same samples at the same step.
//
// The cursor of a run is one number, consumed_samples; a checkpoint stores nothing else about the data.
// Source: Megatron's MegatronPretrainingSampler ("single").
// Code: header only. Tests: tests/data/gpt_dataset_test.cc.

#include <cstdint>

#include "base/error.h"

namespace mt::data {

struct StepSamples {
  std::int64_t consumed_samples = 0;  // before this step
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;  // samples of one micro-batch of one data-parallel rank
  std::int64_t dp_size = 1;

  // Micro-batches a rank runs in this step.   needs  global_batch divisible by micro_batch * dp_size (MT_CHECK)
  std::int64_t num_micro_batches() const {
    MT_CHECK(micro_batch > 0 && dp_size > 0 && global_batch % (micro_batch * dp_size) == 0,
             "global batch {} micro batch {} dp {}", global_batch, micro_batch, dp_size);
    return global_batch / (micro_batch * dp_size);
  }

  // Ordinal of the i-th sample of micro-batch m on data-parallel rank `dp_rank`: blocks of micro_batch * dp_size
  // consecutive ordinals, cut in dp_size runs. Over all (dp_rank, m, i) these are exactly
  // consumed_samples ... consumed_samples + global_batch - 1.
  std::int64_t ordinal(std::int64_t dp_rank, std::int64_t m, std::int64_t i) const {
    MT_CHECK(dp_rank >= 0 && dp_rank < dp_size && m >= 0 && m < num_micro_batches() && i >= 0 && i < micro_batch,
             "dp rank {} of {}, micro-batch {}, sample {} of {}", dp_rank, dp_size, m, i, micro_batch);
    return consumed_samples + (m * dp_size + dp_rank) * micro_batch + i;
  }

  // The cursor after the step.
  std::int64_t consumed_after() const { return consumed_samples + global_batch; }
};

}  // namespace mt::data
