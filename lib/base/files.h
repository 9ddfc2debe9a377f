#pragma once
// Files that are either whole or not there: temporary name, write, fsync, rename, fsync of the directory.
//
// Every failure is Error{io} with the path and the system's words; no partial file stays at the final path.
// Code: base/files.cc. Tests: tests/base/files_test.cc; faults by tests/fault/.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>
#include <string_view>
#include <vector>

namespace mt {

namespace fs = std::filesystem;

// Whole content.   fails  Error{io}: missing, unreadable, a directory
std::string read_file(const fs::path& path);

// Write `content` to `path` as one act: temporary in the same directory, fsync, rename, fsync parent.
//   fails  Error{io}; the old file, if any, is untouched and the temporary is removed
void write_file_atomic(const fs::path& path, std::string_view content);

// fsync a directory, so that renames in it are durable. File systems that refuse (EINVAL) are accepted.
void fsync_directory(const fs::path& dir);

// Swap two existing directories in one act (renameat2 RENAME_EXCHANGE).
//   gives  false where the file system or kernel cannot; nothing changed then
//   fails  Error{io}: one of them is missing, no permission
[[nodiscard]] bool rename_exchange(const fs::path& a, const fs::path& b);

// A file descriptor for sequential or positioned writing with a final name that appears only on commit().
// Dropped without commit(): the temporary is removed. A name that is no regular file (a device, a pipe) is written in
// place, never replaced; a symbolic link stays, and what it points to is replaced.
class OutputFile {
 public:
  // Opens `<path>.tmp.<pid>` beside `path`.   fails  Error{io}
  explicit OutputFile(const fs::path& path);
  // The same for work that goes on after a kill: the temporary is `<path>.partial`, which a killed process leaves (a
  // failing one removes it). Its first `keep` bytes stay, what is behind them goes; with 0 it begins anew.
  //   needs  nobody else writes there (FileLock)   fails  Error{io}; Error{corrupt}: it has fewer bytes
  static OutputFile partial(const fs::path& path, std::uint64_t keep);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void write(const void* bytes, std::size_t size);
  void write_at(std::uint64_t offset, const void* bytes, std::size_t size);
  std::uint64_t size() const { return size_; }
  const fs::path& temporary_path() const { return temporary_; }
  // What is written so far is on the disk.   fails  Error{io}; temporary removed
  void sync();
  // From now on a failure or the end of this object leaves the temporary where it is (true) or removes it (false, as at
  // the beginning): for work another process is to go on with.
  void keep_temporary(bool keep) { kept_ = keep; }

  // fsync, rename to the final path, fsync the parent.   fails  Error{io}; temporary removed
  void commit();
  // fsync and close only, keeping the temporary for a later rename by publish(); used when several files must appear
  // together (.bin before .idx).
  void finish();
  void publish();

 private:
  OutputFile() = default;
  void fail(const char* act, int error_number);
  fs::path path_, temporary_;  // temporary_ is empty where path_ is written in place
  int fd_ = -1;
  bool in_place_ = false, partial_ = false, kept_ = false;
  std::uint64_t size_ = 0;
};

// What processes of this machine that are no more left beside `path`: `<path>.tmp.<pid>`, spelled as `path` is.
std::vector<fs::path> stale_temporaries(const fs::path& path);

// `<path>.partial`, where OutputFile::partial writes.
fs::path partial_path(const fs::path& path);

// A read-only memory map that keeps no descriptor. Empty files map to an empty span; those below 64 KiB are copied, since a
// process may hold some 65,000 maps and no more.   fails  Error{io}
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mt
