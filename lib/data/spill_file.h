#pragma once
// Values written now and read back once at the end, kept on disk: memory stays 1 MiB whatever their number.
//
// Code: data/spill_file.cc. Tests: tests/data/indexed_dataset_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt::data {

class SpillFile {
 public:
  // Without a name: gone whatever ends the process.   fails  Error{io}
  explicit SpillFile(const std::filesystem::path& beside);
  // Under a name, so that it can be taken up after a kill; the destructor removes it. Its first `keep` bytes stay.
  //   fails  Error{io}; Error{corrupt}: it has fewer bytes
  SpillFile(const std::filesystem::path& path, std::uint64_t keep);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  void add(std::span<const std::byte> bytes);
  // Under a name: whether it outlives this object.
  void keep(bool on) { kept_ = on; }
  // All that was added is on the disk.   fails  Error{io}
  void sync();
  // Hand every byte, in order and in blocks of a multiple of 8 bytes (the last may be odd), to `take`.
  void replay(const std::function<void(std::span<const std::byte>)>& take);

 private:
  void flush();
  int fd_ = -1;
  std::string where_;
  bool named_ = false, kept_ = false;
  std::vector<std::byte> buffer_;
};

}  // namespace mt::data
