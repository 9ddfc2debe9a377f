#pragma once
// Validation and test inside a run. Code: train/evaluate.cc. Tests: tests/train/validation_test.cc.

#include "train/training_run.h"

namespace mt {

// Score every validation set, options.eval_iters batches or all of it, and report each loss by name; nothing without
// one. The loss is the mean over all unmasked tokens. Collective.
void validate_now(TrainingRun& run);
// The same for the test set, from its beginning.
void test_now(TrainingRun& run);

}  // namespace mt
