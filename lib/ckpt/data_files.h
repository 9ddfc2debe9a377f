#pragma once
// Reads byte ranges of a checkpoint's data files, in small pieces and with the disk kept ahead of them.
//
// What is in the page cache is copied from there. Where it is not, the disk is asked for a window of many megabytes at
// once, so that it works while pieces are hashed; the kernel's own read-ahead sees several threads that take chunks in
// turn and stays small. The page cache is used on purpose: ranks of one host often read the same file.
// Measured against `dd`: tests/bench/ckpt_bench.cc. Code: ckpt/data_files.cc. Tests: tests/ckpt/data_files_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "ckpt/manifest.h"

namespace mt {

// Bytes [begin, end) of data file `file` of the manifest.
struct FileRange {
  std::uint32_t file = 0;
  std::uint64_t begin = 0, end = 0;
};

// The files of one load, each opened by the first range that needs it and closed after the last, so that thousands are
// never open together. Usable from several threads.
class DataFiles {
 public:
  // Borrows both.
  DataFiles(const std::filesystem::path& dir, const Manifest& manifest) : dir_(dir), manifest_(manifest) {}
  ~DataFiles();
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;

  // Before the first read: all ranges that will be asked for, ascending within a file. After each of them: done.
  void expect(const FileRange& range) { open_[range.file].wanted.push_back({range.begin, range.end}); }
  void done(std::uint32_t file);

  // Read a range to `out`; `on_piece` is called for every part as soon as it is there, in ascending order, parts of at
  // most 256 KiB.
  //   fails  Error{io}; Error{corrupt} when the file ends before the range does
  //   cost   one copy; of what is not cached, the next 16 MiB among the expected ranges are asked of the disk ahead
  void read(const FileRange& range, std::byte* out,
            const std::function<void(const std::byte* piece, std::size_t size)>& on_piece);

  std::filesystem::path path(std::uint32_t file) const { return dir_ / manifest_.files[file].name; }

 private:
  struct Span {
    std::uint64_t begin, end;
  };
  struct Open {
    int fd = -1;
    std::vector<Span> wanted;
    std::size_t num_done = 0;
    std::uint64_t asked = 0;  // of the disk, up to this byte
  };
  int open(std::uint32_t file);
  void read_ahead(int fd, std::uint32_t file, std::uint64_t at);

  const std::filesystem::path& dir_;
  const Manifest& manifest_;
  std::mutex mutex_;
  std::map<std::uint32_t, Open> open_;
};

}  // namespace mt
