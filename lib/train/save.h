#pragma once
// Checkpoints of the run as it stands: into options.save, or with save_local there first and then on to options.save.
//
// Code: train/save.cc. Tests: tests/train/loop_test.cc, tests/train/save_local_test.cc.

#include "ckpt/reader.h"
#include "train/training_run.h"

namespace mt {

// Before anything is built: the directories are this run's and can be written. Collective.
//   reader  the checkpoint the run starts from, or null
//   fails   as SaveLock; Error{config}: save_local is another run's, or not the same directory for all ranks
void lock_saves(TrainingRun& run, const Reader* reader);

// What lock_saves would refuse of what lies there, with nothing made.   fails  Error{config}
void look_at_saves(const TrainingOptions& options, const Reader* reader);

// When all is built: what saves beside training. A checkpoint that was taken from save_local and never became durable goes
// on its way. Collective.   fails  Error{device}, as DurableCopy::start
void prepare_saves(TrainingRun& run, const Reader* reader);

// Save; collective over the world. With async_save it only begins. A save or copy that is still under way ends first.
//   fails  Error, on every rank; the previous checkpoint stays
void save_checkpoint(TrainingRun& run);

// At the end of every step: what is under way moves on, and is reported when it is complete. Collective.
//   fails  as save_checkpoint
void follow_save(TrainingRun& run);

// Before a run ends: what is under way is durable after it. Collective.   fails  as save_checkpoint
void finish_save(TrainingRun& run);

}  // namespace mt
