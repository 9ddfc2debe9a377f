#pragma once
// Saves that training does not wait for: a copy of the rank's state, a thread that writes it, a commit when all are done.
//
//   start   ranks agree on the directory, each copies what it writes into its snapshot; training goes on
//   write   a thread of each rank writes and fsyncs its files from the snapshot (ckpt/store.h)
//   poll    at a step boundary: once every rank's files are durable, rank 0's thread commits; the tracker moves there
//   poll    at a later one: the save is complete
// The threads call no communication; ranks meet in start, poll and finish alone. Files are bit for bit those of
// save_training(). One save at a time. Code: engine/async_save.cc. Tests: tests/engine/async_save_test.cc.

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.h"
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
  // A save that is still being written is broken off; it stays behind unfinished.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  bool under_way() const { return phase_ != Phase::idle; }

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
  enum class Phase : std::uint8_t { idle, writing, committing };
  void run(const std::function<void()>& act);
  void copy_state();

  SaveTarget target_;
  TrainingState state_;
  CheckpointMeta meta_;
  Buffer snapshot_;
  std::vector<TensorShard> shards_;  // of the snapshot
  Phase phase_ = Phase::idle;
  WriteResult written_;
  double stall_s_ = 0;
  Clock::time_point started_;

  std::thread thread_;
  std::atomic<bool> done_{true}, cancel_{false};
  std::optional<Error> failure_;  // of the thread; read when done_
};

}  // namespace mt
