#pragma once
// Two acts of a save that threads do while ranks train: every rank writes its files, then one publishes them.
//
//   begin    ranks agree on the temporary directory; the caller may then copy what the acts read
//   go       `write` starts on a thread of every rank
//   poll     once all have written, rank 0's thread does `publish`; once that ended, the save is complete
// Threads call no communication; ranks meet in begin, poll and finish alone. One save at a time.
// Code: engine/background_save.cc. Tests: tests/engine/async_save_test.cc, tests/engine/durable_copy_test.cc.

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "comm/communicator.h"

namespace mt {

class BackgroundSave {
 public:
  // Saves go under `root`.   needs  stream and world live longer than this
  BackgroundSave(std::filesystem::path root, Stream& stream, Communicator& world);
  // A save that is under way is broken off; it stays behind unfinished.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  bool under_way() const { return phase_ != Phase::idle; }
  std::int64_t iteration() const { return iteration_; }
  // True once the save is to be broken off; `write` looks at it.
  const std::atomic<bool>& cancel() const { return cancel_; }

  // Make the temporary directory.   needs  nothing under way   fails  as begin_save(), on every rank. Collective
  void begin(std::int64_t iteration);
  // Start to write.   needs  begin() before
  void go(std::function<void()> write, std::function<void()> publish);
  // Move on without waiting for files. Collective.
  //   gives  true when the save has just become complete
  //   fails  on every rank, when an act failed anywhere; the temporary directory is removed
  bool poll();
  // Wait until the save is complete; false when none is under way. Collective.   fails  as poll
  bool finish();

 private:
  enum class Phase : std::uint8_t { idle, writing, publishing };
  void run(const std::function<void()>& act);

  std::filesystem::path root_;
  Stream& stream_;
  Communicator& world_;
  std::int64_t iteration_ = 0;
  Phase phase_ = Phase::idle;
  std::function<void()> publish_;

  std::thread thread_;
  std::atomic<bool> done_{true}, cancel_{false};
  std::optional<Error> failure_;  // of the thread; read when done_
};

}  // namespace mt
