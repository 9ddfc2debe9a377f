#pragma once
// Saves that training does not wait for: a copy of the rank's state, a thread that writes it, a commit when all are done.
//
//   start   ranks agree on the directory, each copies what it writes into its snapshot; training goes on
//   write   a thread of each rank writes and fsyncs its files from the snapshot (ckpt/store.h)
//   poll    at a step boundary: once every rank's files are durable, rank 0's thread commits; the tracker moves there
//   poll    at a later one: the save is complete
// Files are bit for bit those of save_training(). One save at a time (engine/background_save.h).
// Code: engine/async_save.cc. Tests: tests/engine/async_save_test.cc.

#include <optional>

#include "base/clock.h"
#include "engine/background_save.h"
#include "engine/checkpoint.h"

namespace mt {

// A save that is complete.
//   stall_s  how long start() kept training;  seconds  from start() to durable and tracked
struct SavedIteration {
  std::int64_t iteration = 0;
  WriteResult written;  // by this rank
  double stall_s = 0, seconds = 0;
};

class AsyncSaver {
 public:
  // Takes memory for one snapshot, as large as what this rank writes, and touches it, so that a job without room for it
  // ends before it trains and a save only copies. `state` is borrowed as long as this lives.
  //   fails  Error{device}
  AsyncSaver(SaveTarget target, const TrainingState& state);

  bool under_way() const { return save_.under_way(); }

  // Begin to save. Collective over the world.
  //   needs  nothing under way
  //   fails  as save_training, for the directory
  //   cost   one copy of the bytes this rank writes
  void start(const CheckpointMeta& meta);

  // Move on what is under way, without waiting for files. Collective; every rank must call it at the same step.
  //   gives  the save once it is complete
  //   fails  as save_training, on every rank, when a write or the commit failed anywhere; the save is removed
  //   cost   an all-reduce of two numbers
  std::optional<SavedIteration> poll();

  // Wait until what is under way is complete; nothing if nothing is. Collective.   fails  as poll
  std::optional<SavedIteration> finish();

 private:
  void copy_state();
  SavedIteration saved() const { return {save_.iteration(), written_, stall_s_, seconds_since(started_)}; }

  SaveTarget target_;
  TrainingState state_;
  CheckpointMeta meta_;
  Buffer snapshot_;
  std::vector<TensorShard> shards_;  // of the snapshot
  WriteResult written_;
  double stall_s_ = 0;
  Clock::time_point started_;
  BackgroundSave save_;  // last: its thread ends before what it reads goes
};

}  // namespace mt
