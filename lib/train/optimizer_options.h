#pragma once
// Which optimizer the flags ask for, by Megatron's names.
//
// Code: train/optimizer_options.cc. Tests: tests/train/optimizer_test.cc.

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// Fill options.optimizer from options.optimizer_names, with the notices there are. Problems are added.
//   needs  options.parallel complete
//   fails  Error{usage} for names that do not exist
void complete_optimizer(TrainingOptions& options, std::vector<Problem>& problems);

}  // namespace mt
