#pragma once
// One process at a time, and files that never take the place of one that is there.
//
// Code: base/file_lock.cc. Tests: tests/base/file_lock_test.cc.

#include <filesystem>
#include <optional>
#include <utility>

#include "base/files.h"

namespace mt {

// An advisory lock (flock) on a file, held until destroyed or until the process ends in whatever way.
class FileLock {
 public:
  // Make or open `path` and lock it, without waiting.
  //   remove  the file goes with the lock
  //   gives   nothing when another process holds it. Where the file system has no locks, the lock is nobody's and is given
  //   fails   Error{io}: cannot be made
  static std::optional<FileLock> try_lock(const fs::path& path, bool remove);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // The descriptor, which holds the lock, to whom it is left; nothing is removed then.
  int release() { return std::exchange(fd_, -1); }

 private:
  FileLock(fs::path remove, int fd) : remove_(std::move(remove)), fd_(fd) {}
  fs::path remove_;  // empty: stays
  int fd_ = -1;
};

// Give a finished file its name, as OutputFile::publish(), but never replace one that is there by now.
//   needs  finish() called, and no publish() later: the temporary goes with `file`
//   fails  Error{io}: something is there and stays as it is
void publish_new(const OutputFile& file, const fs::path& path);

}  // namespace mt
