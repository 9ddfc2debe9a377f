#pragma once
// The --save directory of a running job: it exists, can be written, and no other job writes to it.
//
// Code: ckpt/save_lock.cc. Tests: tests/train/save_lock_test.cc.

#include <filesystem>

namespace mt {

// Held by rank 0 for the length of a run, by flock on DIR/.lock: a killed run holds nothing.
class SaveLock {
 public:
  // Makes the directory and tries to write in it, so that a run which cannot save stops before it trains.
  //   fresh  the run does not continue what lies there: iterations that are there are named in a warning
  //   fails  Error{io}: cannot be made or written; another process holds it
  SaveLock(const std::filesystem::path& dir, bool fresh);
  SaveLock(SaveLock&& other) noexcept;
  SaveLock& operator=(SaveLock&&) = delete;
  ~SaveLock();

 private:
  int fd_ = -1;
};

}  // namespace mt
