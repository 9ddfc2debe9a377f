#pragma once
// Reads byte ranges of a checkpoint's data files in small pieces, each handed on while the core's cache still has it.
//
// Plain reads through the page cache, by a descriptor of its own for each thread: the kernel then sees each thread's
// order, reads ahead as far as the disk is set up for and in large folios. Asking for a window ahead of time
// (POSIX_FADV_WILLNEED) took twice as long here, O_DIRECT one and a half times; and ranks of one host often read the same
// file, which comes from the disk once. Beside dd: tests/bench/ckpt_bench.cc.
// Code: ckpt/data_files.cc. Tests: tests/ckpt/data_files_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "ckpt/manifest.h"
#include "ckpt/packed_file.h"

namespace mt {

// Bytes [begin, end) of data file `file` of the manifest; of the plain file where it is stored packed.
struct FileRange {
  std::uint32_t file = 0;
  std::uint64_t begin = 0, end = 0;
};

// One thread's way to the data files; holds the last one open.
class DataFiles {
 public:
  // Borrows both.
  DataFiles(const std::filesystem::path& dir, const Manifest& manifest) : dir_(dir), manifest_(manifest) {}
  ~DataFiles() { close(); }
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;

  // Read a range to `out`; `on_piece` is called for every part as soon as it is there, in ascending order, parts of at
  // most 256 KiB.
  //   fails  Error{io}; Error{corrupt} when the file ends before the range does, or a packed one does not unpack
  //   cost   one copy, out of the page cache; for a packed file the frames it touches, the last of which is kept
  void read(const FileRange& range, std::byte* out,
            const std::function<void(const std::byte* piece, std::size_t size)>& on_piece);

 private:
  void open(std::uint32_t file);
  void read_packed(const FileRange& range, std::byte* out,
                   const std::function<void(const std::byte* piece, std::size_t size)>& on_piece);
  void close();
  std::string path(std::uint32_t file) const { return (dir_ / manifest_.files[file].name).string(); }

  const std::filesystem::path& dir_;
  const Manifest& manifest_;
  int fd_ = -1;
  std::uint32_t file_ = 0;
  std::unique_ptr<PackedFile> packed_;  // of a file with a codec
};

}  // namespace mt
