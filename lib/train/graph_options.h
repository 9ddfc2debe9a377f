#pragma once
// Which acts of a step become CUDA graphs, by Megatron's flags.
//
// Code: train/graph_options.cc. Tests: tests/train/graphs_test.cc.

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// Fill options.graph_warmup; 0 on a CPU. What graphs cannot be made of is a problem by its name. Problems are added.
//   needs  options.parallel complete
//   fails  Error{usage} for names that do not exist
void complete_graphs(TrainingOptions& options, std::vector<Problem>& problems);

}  // namespace mt
