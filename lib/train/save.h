#pragma once
// A checkpoint of the run as it stands. Code: train/save.cc. Tests: tests/train/loop_test.cc.

#include "train/training_run.h"

namespace mt {

// Save under options.save; collective over the world.
//   fails  Error, on every rank; the previous checkpoint stays
void save_checkpoint(TrainingRun& run);

}  // namespace mt
