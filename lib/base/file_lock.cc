#include "base/file_lock.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#endif

namespace mt {

namespace {

int opened(const fs::path& path, int flags, mode_t mode) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace

std::optional<FileLock> FileLock::try_lock(const fs::path& path, bool remove) {
  for (;;) {
    const int fd = opened(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0) throw Error(Code::io, "cannot lock: " + errno_text(errno), path.string());
    FileLock lock(remove ? path : fs::path(), fd);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      lock.remove_.clear();
      return std::nullopt;
    }
    // Who held it before may have removed the name meanwhile; a lock on a file without one keeps nobody out.
    struct stat mine {}, named {};
    if (::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
        mine.st_dev == named.st_dev)
      return lock;
    lock.remove_.clear();
  }
}

FileLock::FileLock(FileLock&& other) noexcept
    : remove_(std::exchange(other.remove_, fs::path())), fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  if (!remove_.empty()) ::unlink(remove_.c_str());
  ::close(fd_);
}

void publish_new(const OutputFile& file, const fs::path& path) {
  const fs::path& from = file.temporary_path();
  if (from.empty()) return;  // a device, written in place
  int failed = ::link(from.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (failed != 0 && failed != EEXIST)  // a file system without links
    failed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (failed == EEXIST)
    throw Error(Code::io, "appeared while this was being made, and is not replaced", path.string(),
                "--force overwrites, or choose another name");
  if (failed == EINVAL || failed == ENOSYS || failed == ENOTSUP)  // it knows neither: what lies there was looked at before
    failed = ::rename(from.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (failed != 0) throw Error(Code::io, "cannot rename: " + errno_text(failed), path.string());
  fsync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

}  // namespace mt
