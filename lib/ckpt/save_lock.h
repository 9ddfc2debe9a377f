#pragma once
// The --save directory of a running job: it exists, can be written, and no other job writes to it.
//
// Code: ckpt/save_lock.cc. Tests: tests/train/save_lock_test.cc.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace mt {

// What SaveLock would refuse of what lies in `dir`, with nothing made and no other process asked.
//   fails  Error{config}, as SaveLock
void require_free(const std::filesystem::path& dir, std::optional<std::int64_t> free_from);

// Held by rank 0 for the length of a run, by flock on DIR/.lock: a killed run holds nothing.
class SaveLock {
 public:
  // Makes the directory and tries to write in it, so that a run which cannot save stops before it trains.
  //   free_from  first iteration this run can write when it does not continue what lies there: what it would replace or
  //              push behind the tracker must not exist; empty for a run that continues it
  //   fails  Error{config}: iterations from there on were saved, `dir` is one or inside one, and nothing was made;
  //          Error{io}: cannot be made or written, another process holds it
  SaveLock(const std::filesystem::path& dir, std::optional<std::int64_t> free_from);
  SaveLock(SaveLock&& other) noexcept;
  SaveLock& operator=(SaveLock&&) = delete;
  ~SaveLock();

 private:
  int fd_ = -1;
};

}  // namespace mt
