#pragma once
// Where test data lies, and small files for the tests of lib/data.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/files.h"

namespace mt {

// MT_TEST_DATA, else ../shared/data beside the source.
inline std::filesystem::path test_data() {
  if (const char* set = std::getenv("MT_TEST_DATA")) return set;
  const char* source = std::getenv("MT_TEST_SOURCE");
  return std::filesystem::path(source != nullptr ? source : ".") / ".." / "shared" / "data";
}

// Where fsync costs nothing, if there is such a place.
inline std::filesystem::path memory_directory() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
}

// A directory of its own for a test, removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory() : ScratchDirectory(std::filesystem::temp_directory_path()) {}
  explicit ScratchDirectory(const std::filesystem::path& base) {
    std::string name = (base / "mt-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // Write a file and give its path.
  std::string file(const std::string& name, std::string_view content) const {
    write_file_atomic(path_ / name, content);
    return *this / name;
  }
  // Names of the files in it, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace mt
