#pragma once
// Validation inside a run. Code: train/evaluate.cc. Tests: tests/train/loop_test.cc.

#include "train/training_run.h"

namespace mt {

// Score options.eval_iters batches of the validation set and report the loss; nothing without one. Collective.
void validate_now(TrainingRun& run);

}  // namespace mt
