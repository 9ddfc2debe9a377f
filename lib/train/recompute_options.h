#pragma once
// Megatron's recompute flags as a RecomputeSpec, and what else is done with saved tensors.
//
// Code: train/recompute_options.cc. Tests: tests/train/recompute_test.cc.

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// What the flags say, for a run of this layout. Problems are added, and the spec is then off.
//   fails  Error{usage} for names that do not exist
RecomputeSpec recompute_spec_of(const TrainingOptions& options, std::vector<Problem>& problems);

// Saved tensors in host memory: of 0 layers on a CPU. Problems are added.
//   needs  options.parallel and options.recompute complete
void complete_host_layers(TrainingOptions& options, std::vector<Problem>& problems);

}  // namespace mt
