#pragma once
// A directory for the files of one target, kept for the whole process; it goes at the end.

#include <fstream>
#include <string>

#include "base/test_data.h"
#include "fuzz/targets.h"

namespace mt::fuzz {

// Write `bytes` as a file of the directory and give its path. No fsync: thousands a second are written.
inline std::string put(const ScratchDirectory& dir, const std::string& name, Bytes bytes) {
  const std::string path = dir / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace mt::fuzz
