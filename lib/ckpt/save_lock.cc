#include "ckpt/save_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "ckpt/iterations.h"

namespace mt {

namespace {

void require_free(const std::filesystem::path& dir, std::int64_t from) {
  std::error_code ec;
  if (!std::filesystem::is_directory(dir, ec)) return;
  const auto there = list_iterations(dir);
  if (there.empty() || there.back().iteration < from) return;
  throw Error(Code::config, fmt::format("holds iterations up to {} of another run, which this one would write over",
                                        there.back().iteration),
              dir.string(), fmt::format("--load {} continues it; else name another --save", dir.string()));
}

}  // namespace

SaveLock::SaveLock(const std::filesystem::path& dir, std::optional<std::int64_t> free_from) {
  if (free_from) require_free(dir, *free_from);
  std::error_code made;
  std::filesystem::create_directories(dir, made);
  if (made || !std::filesystem::is_directory(dir))
    throw Error(Code::io, "cannot be made a directory: " + (made ? made.message() : "something else is there"),
                dir.string(), "name another --save");
  const auto path = dir / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw Error(Code::io, "cannot write: " + errno_text(errno), dir.string(), "name a --save that can be written");
  // File systems without locks are accepted: there the lock is nobody's.
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd_);
    throw Error(Code::io, "another run is saving there", dir.string(), "wait for it, or name another --save");
  }
}

SaveLock::SaveLock(SaveLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

SaveLock::~SaveLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace mt
