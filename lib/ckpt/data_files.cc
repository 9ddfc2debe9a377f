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
  const DataFile& f = manifest_.files[file];
  if (f.codec.empty()) return;
  packed_ = std::make_unique<PackedFile>(fd_, f.bytes, path(file));
  if (packed_->plain_bytes() != f.plain_bytes)
    throw Error(Code::corrupt, fmt::format("{} bytes are packed in it, the manifest says {}", packed_->plain_bytes(), f.plain_bytes),
                path(file));
}

void DataFiles::close() {
  packed_.reset();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void DataFiles::read_packed(const FileRange& range, std::byte* out,
                            const std::function<void(const std::byte*, std::size_t)>& on_piece) {
  if (range.end > packed_->plain_bytes())
    throw Error(Code::corrupt, fmt::format("ends at byte {}, wanted {}", packed_->plain_bytes(), range.end), path(range.file));
  packed_->read(range.begin, range.end, out);
  for (auto left = range.end - range.begin; left > 0;) {
    const auto n = std::min(kPieceBytes, left);
    on_piece(out, n);
    out += n;
    left -= n;
  }
}

void DataFiles::read(const FileRange& range, std::byte* out,
                     const std::function<void(const std::byte*, std::size_t)>& on_piece) {
  open(range.file);
  if (packed_) return read_packed(range, out, on_piece);
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
