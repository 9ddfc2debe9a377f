#pragma once
// Bytes a rank of a training run needs: those of a step, and scratch for validation where the run scores.
//
// Code: train/rank_memory.cc. Tests: tests/train/memory_test.cc.

#include "plan/memory.h"
#include "train/training_options.h"

namespace mt {

// needs  options from complete_options; the lane of the coordinate's pipeline rank
MemoryPlan rank_memory(const TrainingOptions& options, const ModelSpec& model, const Coordinate& at, const Lane& lane);

}  // namespace mt
