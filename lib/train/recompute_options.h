#pragma once
// Megatron's recompute flags as a RecomputeSpec.
//
// Code: train/recompute_options.cc. Tests: tests/train/recompute_test.cc.

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// What the flags say, for a run of this layout. Problems are added, and the spec is then off.
//   fails  Error{usage} for names that do not exist
RecomputeSpec recompute_spec_of(const TrainingOptions& options, std::vector<Problem>& problems);

}  // namespace mt
