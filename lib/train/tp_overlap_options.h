#pragma once
// Which messages of tensor parallelism go on beside products, by Megatron's flags.
//
// Code: train/tp_overlap_options.cc. Tests: tests/train/tp_overlap_test.cc.

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// Make options.tp_overlap what the run does: nothing without tp_comm_overlap. Without sequence parallelism that is a problem,
// as Megatron has it; without tensor parallelism, and for products in fp8, a notice.
//   needs  options.parallel complete
void complete_tp_overlap(TrainingOptions& options, std::vector<Problem>& problems);

}  // namespace mt
