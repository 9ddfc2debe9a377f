#pragma once
// One step: batches, forward and backward along the lane, the update; and the sums a loss is made of.
//
// Code: train/train_step.cc. Tests: tests/train/.

#include "train/training_run.h"

namespace mt {

// The next step of the run. Collective over the world; rank 0 reports it.
//   fails  Error{data} when no token of the batch has a loss
void train_step(TrainingRun& run);

// Sum over all data-parallel ranks; loss_sum over the pipeline too, where only the last stage has losses.
double global_sum(TrainingRun& run, double mine);
double loss_sum(TrainingRun& run, double mine);

// Loss of the unmasked tokens of this rank's micro-batches, added in order; and their number.
double masked_sum(const std::vector<HostBatch>& batches, const std::vector<std::vector<float>>& losses);
double unmasked(const std::vector<HostBatch>& batches);

}  // namespace mt
