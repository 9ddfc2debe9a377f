#pragma once
// Validation and test inside a run. Code: train/evaluate.cc. Tests: tests/train/validation_test.cc.

#include "train/training_run.h"

namespace mt {

// Score every validation set, options.eval_iters batches or all of it, and report each loss by name; nothing without
// one. The loss is the mean over all unmasked tokens. Every few batches all ranks ask each other whether to stop
// (train/stop_request.h); then what is unfinished is not reported. Collective.
//   gives  0, or the agreed_stop() that ended it early
int validate_now(TrainingRun& run);
// The same for the test set, from its beginning.
int test_now(TrainingRun& run);

}  // namespace mt
