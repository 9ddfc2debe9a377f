#include "base/files.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

namespace mt {

namespace {

constexpr std::size_t kCopied = std::size_t{64} << 10;  // smaller files are copied, not mapped

[[noreturn]] void io_error(const char* act, const fs::path& path, int error_number) {
  const char* hint = error_number == ENOSPC  ? "free space or choose another directory"
                     : error_number == EFBIG ? "raise the limit on the size of a file, ulimit -f"
                     : error_number == EMFILE ? "raise the limit on open files, ulimit -n"
                     : error_number == ENOMEM ? "fewer files, or a higher vm.max_map_count"
                                             : "";
  throw Error(Code::io, fmt::format("cannot {}: {}", act, errno_text(error_number)), path.string(), hint);
}

int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

// Descriptor that closes itself, for reading.
struct Descriptor {
  explicit Descriptor(const fs::path& path) : fd(open_retrying(path, O_RDONLY)) {
    if (fd < 0) io_error("open", path, errno);
  }
  ~Descriptor() { ::close(fd); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

// What a symbolic link points to; another name is itself.
fs::path behind_link(const fs::path& path) {
  std::error_code none;
  const fs::path real = fs::is_symlink(path, none) ? fs::weakly_canonical(path, none) : path;
  return real.empty() ? path : real;
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Descriptor file(path);
  struct stat st {};
  if (::fstat(file.fd, &st) != 0) io_error("read", path, errno);
  std::string content;
  // One byte more than the size, so that the read that finds the end needs no growth; pipes and /proc say 0.
  std::size_t capacity = static_cast<std::size_t>(st.st_size) + 1, used = 0;
  for (;;) {
    content.resize(capacity);
    const ssize_t n = ::read(file.fd, content.data() + used, capacity - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error("read", path, errno);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used == capacity) capacity = capacity * 2 + 4096;
  }
  content.resize(used);
  return content;
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  OutputFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

void fsync_directory(const fs::path& dir) {
  const int fd = open_retrying(dir, O_RDONLY | O_DIRECTORY);
  if (fd < 0) io_error("open directory", dir, errno);
  const int error_number = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error_number != 0 && error_number != EINVAL) io_error("fsync directory", dir, error_number);
}

bool rename_exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  io_error("exchange", a, errno);
}

fs::path partial_path(const fs::path& path) { return path.string() + ".partial"; }

OutputFile OutputFile::partial(const fs::path& path, std::uint64_t keep) {
  OutputFile file;
  file.path_ = behind_link(path);
  file.temporary_ = partial_path(file.path_);
  file.partial_ = true;
  if (keep == 0) ::unlink(file.temporary_.c_str());  // it may be a second name of a finished file
  file.fd_ = open_retrying(file.temporary_, O_WRONLY | (keep == 0 ? O_CREAT | O_TRUNC : 0), 0666);
  if (file.fd_ < 0) io_error(keep == 0 ? "create" : "open", std::exchange(file.temporary_, fs::path()), errno);
  struct stat st {};
  if (::fstat(file.fd_, &st) != 0) file.fail("stat", errno);
  if (static_cast<std::uint64_t>(st.st_size) < keep) {
    const fs::path there = std::exchange(file.temporary_, fs::path());
    throw Error(Code::corrupt, fmt::format("has {} bytes, {} were written", st.st_size, keep), there.string());
  }
  if (::ftruncate(file.fd_, static_cast<off_t>(keep)) != 0) file.fail("cut", errno);
  if (::lseek(file.fd_, static_cast<off_t>(keep), SEEK_SET) < 0) file.fail("seek", errno);
  file.size_ = keep;
  return file;
}

OutputFile::OutputFile(const fs::path& path) : path_(behind_link(path)) {
  std::error_code none;
  const fs::file_status there = fs::status(path_, none);
  in_place_ = fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there);
  if (in_place_) {
    fd_ = open_retrying(path_, O_WRONLY);
    if (fd_ < 0) io_error("open", path_, errno);
    return;
  }
  temporary_ = path_;
  temporary_ += fmt::format(".tmp.{}", ::getpid());
  fd_ = open_retrying(temporary_, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd_ < 0) io_error("create", path_, errno);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      in_place_(other.in_place_),
      partial_(other.partial_),
      kept_(other.kept_),
      size_(other.size_) {
  other.temporary_.clear();
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty() && !kept_) ::unlink(temporary_.c_str());
}

void OutputFile::fail(const char* act, int error_number) {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty() && !kept_) ::unlink(temporary_.c_str());
  temporary_.clear();
  io_error(act, path_, error_number);
}

void OutputFile::write(const void* bytes, std::size_t size) {
  MT_CHECK(fd_ >= 0, "write after commit, finish or failure of {}", path_.string());
  const char* p = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = ::write(fd_, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", errno);
    p += n;
    size -= static_cast<std::size_t>(n);
    size_ += static_cast<std::uint64_t>(n);
  }
}

void OutputFile::write_at(std::uint64_t offset, const void* bytes, std::size_t size) {
  MT_CHECK(fd_ >= 0, "write after commit, finish or failure of {}", path_.string());
  const char* p = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = ::pwrite(fd_, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", errno);
    p += n;
    size -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
    if (offset > size_) size_ = offset;
  }
}

void OutputFile::sync() {
  MT_CHECK(fd_ >= 0, "sync after commit, finish or failure of {}", path_.string());
  if (::fdatasync(fd_) != 0 && !(in_place_ && (errno == EINVAL || errno == EROFS))) fail("fsync", errno);
}

void OutputFile::finish() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0 && !(in_place_ && (errno == EINVAL || errno == EROFS))) fail("fsync", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("close", errno);
}

void OutputFile::publish() {
  if (in_place_) return;
  MT_CHECK(fd_ < 0 && !temporary_.empty(), "publish of {} needs finish() first", path_.string());
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  if (partial_) ::unlink(temporary_.c_str());  // still there where a killed run had given the file both names
  temporary_.clear();
  fsync_directory(parent_of(path_));
}

// The process that made a temporary of `output`, or 0.
static pid_t maker_of(const std::string& name, const std::string& output) {
  const std::string front = output + ".tmp.";
  if (name.size() <= front.size() || name.compare(0, front.size(), front) != 0) return 0;
  pid_t pid = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + front.size(), end, pid);
  return error == std::errc() && stop == end && pid > 0 ? pid : 0;
}

std::vector<fs::path> stale_temporaries(const fs::path& path) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (fs::directory_iterator entry(parent_of(path), error), end; !error && entry != end; entry.increment(error)) {
    const pid_t pid = maker_of(entry->path().filename().string(), path.filename().string());
    if (pid != 0 && ::kill(pid, 0) != 0 && errno == ESRCH) stale.push_back(path.parent_path() / entry->path().filename());
  }
  return stale;
}

void OutputFile::commit() {
  finish();
  publish();
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(path);
  struct stat st {};
  if (::fstat(file.fd, &st) != 0) io_error("stat", path, errno);
  if (S_ISDIR(st.st_mode)) io_error("map", path, EISDIR);
  size_ = static_cast<std::size_t>(st.st_size);
  if (size_ == 0) return;
  if (size_ < kCopied) {
    std::unique_ptr<std::byte[]> copy(new std::byte[size_]);
    for (std::size_t at = 0; at < size_;) {
      const ssize_t n = ::pread(file.fd, copy.get() + at, size_ - at, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) io_error("read", path, errno);
      if (n == 0) size_ = at;  // cut meanwhile
      at += static_cast<std::size_t>(n);
    }
    data_ = copy.release();
    return;
  }
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) io_error("map", path, errno);
  data_ = static_cast<const std::byte*>(map);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (size_ < kCopied) delete[] data_;
  else ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace mt
