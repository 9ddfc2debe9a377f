#pragma once
// A checkpoint of the run as it stands. Code: train/save.cc. Tests: tests/train/loop_test.cc.

#include "train/training_run.h"

namespace mt {

// Save under options.save; collective over the world. With async_save it only begins, after a save that is still under
// way has ended.
//   fails  Error, on every rank; the previous checkpoint stays
void save_checkpoint(TrainingRun& run);

// At the end of every step: a save under way moves on, and is reported when it is complete. Collective.
//   fails  as save_checkpoint
void follow_save(TrainingRun& run);

// Before a run ends: what is under way is durable after it. Collective.   fails  as save_checkpoint
void finish_save(TrainingRun& run);

}  // namespace mt
