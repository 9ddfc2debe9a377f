#include "ckpt/save_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "ckpt/iterations.h"

namespace mt {

SaveLock::SaveLock(const std::filesystem::path& dir, bool fresh) {
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
  if (!fresh) return;
  const auto there = list_iterations(dir);
  if (!there.empty())
    log::warn("{} holds iterations up to {} of an earlier run; this one starts anew beside them (--load continues it)",
              dir.string(), there.back().iteration);
}

SaveLock::SaveLock(SaveLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

SaveLock::~SaveLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace mt
