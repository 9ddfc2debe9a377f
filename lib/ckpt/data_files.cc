#include "ckpt/data_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::uint64_t kPieceBytes = 256 << 10;  // a quarter of a core's second-level cache

}  // namespace

void DataFiles::open(std::uint32_t file) {
  if (fd_ >= 0 && file_ == file) return;
  close();
  fd_ = ::open(path(file).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) throw Error(Code::io, "cannot open for reading: " + errno_text(errno), path(file));
  file_ = file;
}

void DataFiles::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void DataFiles::read(const FileRange& range, std::byte* out,
                     const std::function<void(const std::byte*, std::size_t)>& on_piece) {
  open(range.file);
  auto at = range.begin;
  while (at < range.end) {
    const auto n = ::pread(fd_, out, std::min(kPieceBytes, range.end - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot read: " + errno_text(errno), path(range.file));
    if (n == 0) throw Error(Code::corrupt, fmt::format("ends at byte {}, wanted {}", at, range.end), path(range.file));
    on_piece(out, static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
    out += n;
  }
}

}  // namespace mt
