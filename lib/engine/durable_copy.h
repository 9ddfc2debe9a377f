#pragma once
// Checkpoints on their way from a fast directory to the durable one, beside training.
//
//   start   a complete checkpoint of the fast directory begins to be copied, each rank some of its files
//   poll    at step boundaries: once every rank's files are on the disk, rank 0's thread publishes the copy and clears the
//           fast directory of what is older
// Files are bit for bit the same. One copy at a time (engine/background_save.h).
// Code: engine/durable_copy.cc. Tests: tests/engine/durable_copy_test.cc.

#include <optional>

#include "base/clock.h"
#include "engine/background_save.h"
#include "engine/checkpoint.h"

namespace mt {

// A copy that is complete.   bytes  by this rank;  seconds  from start() to durable and tracked
struct DurableIteration {
  std::int64_t iteration = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

class DurableCopy {
 public:
  //   fast  a --save directory that every rank sees
  DurableCopy(std::filesystem::path fast, SaveTarget durable, Stream& stream, Communicator& world);

  bool under_way() const { return save_.under_way(); }
  // Begin to copy `iteration`. Collective.   needs  it is complete in the fast directory, nothing under way
  //   fails  as begin_save()
  void start(std::int64_t iteration);
  // Move on what is under way, without waiting for files. Collective.
  //   gives  the copy once it is complete
  //   fails  on every rank, when it failed anywhere; the checkpoint in the fast directory stays
  std::optional<DurableIteration> poll();
  // Wait until what is under way is complete; nothing if nothing is. Collective.   fails  as poll
  std::optional<DurableIteration> finish();

 private:
  DurableIteration copied() const { return {save_.iteration(), bytes_, seconds_since(started_)}; }

  std::filesystem::path fast_;
  SaveTarget durable_;
  Communicator& world_;
  std::uint64_t bytes_ = 0;
  Clock::time_point started_;
  BackgroundSave save_;  // last: its thread ends before what it reads goes
};

}  // namespace mt
