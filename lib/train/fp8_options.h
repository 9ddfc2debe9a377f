#pragma once
// Megatron's fp8 flags as an Fp8Spec.
//
// Code: train/fp8_options.cc. Tests: tests/train/fp8_test.cc.

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// What the flags say; off without --fp8-format.   fails  Error{usage} for names that do not exist
Fp8Spec fp8_spec_of(const TrainingOptions& options);
// What of it does not fit the run.   needs  the model with fp8 in use
void add_fp8_problems(const TrainingOptions& options, const ModelSpec& model, std::vector<Problem>& problems);

}  // namespace mt
