#include "ckpt/data_files.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::uint64_t kPieceBytes = 256 << 10;   // a quarter of a core's second-level cache
constexpr std::uint64_t kWindowBytes = 16u << 20;  // deep enough for a disk that serves 4 GB/s with 4 ms of delay

// A part of the page cache only: -1 with EAGAIN when the first byte would have to come from the disk.
ssize_t read_cached(int fd, std::byte* out, std::uint64_t size, std::uint64_t at) {
#ifdef RWF_NOWAIT
  iovec part{out, size};
  return ::preadv2(fd, &part, 1, static_cast<off_t>(at), RWF_NOWAIT);
#else
  (void)fd, (void)out, (void)size, (void)at;
  errno = EAGAIN;
  return -1;
#endif
}

}  // namespace

DataFiles::~DataFiles() {
  for (auto& [file, o] : open_)
    if (o.fd >= 0) ::close(o.fd);
}

int DataFiles::open(std::uint32_t file) {
  const std::lock_guard lock(mutex_);
  auto& o = open_[file];
  if (o.fd >= 0) return o.fd;
  o.fd = ::open(path(file).c_str(), O_RDONLY | O_CLOEXEC);
  if (o.fd < 0) throw Error(Code::io, "cannot open for reading: " + errno_text(errno), path(file).string());
  return o.fd;
}

void DataFiles::done(std::uint32_t file) {
  const std::lock_guard lock(mutex_);
  auto& o = open_[file];
  if (++o.num_done < o.wanted.size() || o.fd < 0) return;
  ::close(o.fd);
  o.fd = -1;
}

void DataFiles::read_ahead(int fd, std::uint32_t file, std::uint64_t at) {
  std::vector<Span> ask;
  {
    const std::lock_guard lock(mutex_);
    auto& o = open_[file];
    auto next = std::upper_bound(o.wanted.begin(), o.wanted.end(), at,
                                 [](std::uint64_t byte, const Span& s) { return byte < s.end; });
    std::uint64_t window = 0;
    for (; next != o.wanted.end() && window < kWindowBytes; ++next) {
      window += next->end - next->begin;
      const auto from = std::max(next->begin, o.asked);
      if (from >= next->end) continue;
      if (!ask.empty() && ask.back().end == from) ask.back().end = next->end;
      else ask.push_back({from, next->end});
      o.asked = next->end;
    }
  }
  for (const auto& s : ask)
    (void)::posix_fadvise(fd, static_cast<off_t>(s.begin), static_cast<off_t>(s.end - s.begin), POSIX_FADV_WILLNEED);
}

void DataFiles::read(const FileRange& range, std::byte* out,
                     const std::function<void(const std::byte*, std::size_t)>& on_piece) {
  const int fd = open(range.file);
  bool cached = true;
  auto at = range.begin;
  while (at < range.end) {
    const auto size = std::min(kPieceBytes, range.end - at);
    auto n = cached ? read_cached(fd, out, size, at) : ::pread(fd, out, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && cached) {  // not there, or the file system knows no such question
      cached = false;
      read_ahead(fd, range.file, at);
      continue;
    }
    if (n < 0) throw Error(Code::io, "cannot read: " + errno_text(errno), path(range.file).string());
    if (n == 0)
      throw Error(Code::corrupt, fmt::format("ends at byte {}, wanted {}", at, range.end), path(range.file).string());
    on_piece(out, static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
    out += n;
  }
}

}  // namespace mt
