#pragma once
// The lock of a tool that writes one checkpoint into a --save directory and leaves.
//
// Code: ckpt/save_lock.cc. Tests: tests/ckpt/soundness_test.cc, tests/cli/mt_reshard_test.cc.

#include <cstdint>
#include <filesystem>

#include "base/file_lock.h"

namespace mt {

// The same lock as a run's SaveLock, so neither writes while the other does. Its file goes again.
class OneSave {
 public:
  // Makes the directory and locks it.
  //   replace  the iteration may be there and is then replaced
  //   fails    Error{config}, and nothing was made: the iteration is there, or a later one, so that the tracker would go
  //            back; `dir` is an iteration or inside one. Error{io}: cannot be made or written, a run is saving there.
  //            Error{corrupt}: the tracker
  OneSave(const std::filesystem::path& dir, std::int64_t iteration, bool replace);

 private:
  FileLock lock_;
};

}  // namespace mt
