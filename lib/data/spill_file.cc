#include "data/spill_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"

namespace mt::data {

namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

}  // namespace

SpillFile::SpillFile(const std::filesystem::path& beside) {
  std::string name = beside.string() + ".spill.XXXXXX";
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) throw Error(Code::io, "cannot create a temporary file: " + errno_text(errno), name);
  ::unlink(name.c_str());
  where_ = name;
}

SpillFile::SpillFile(const std::filesystem::path& path, std::uint64_t keep) : where_(path.string()), named_(true) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (keep == 0 ? O_CREAT | O_TRUNC : 0), 0666);
  if (fd_ < 0) throw Error(Code::io, "cannot open: " + errno_text(errno), where_);
  struct stat st {};
  const bool enough = ::fstat(fd_, &st) == 0 && static_cast<std::uint64_t>(st.st_size) >= keep;
  const bool cut = enough && ::ftruncate(fd_, static_cast<off_t>(keep)) == 0 && ::lseek(fd_, 0, SEEK_END) >= 0;
  if (cut) return;
  const int why = errno;
  ::close(fd_);
  if (!enough) throw Error(Code::corrupt, fmt::format("has {} bytes, {} were written", st.st_size, keep), where_);
  throw Error(Code::io, "cannot cut: " + errno_text(why), where_);
}

SpillFile::~SpillFile() {
  ::close(fd_);
  if (named_ && !kept_) ::unlink(where_.c_str());
}

void SpillFile::add(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void SpillFile::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot write: " + errno_text(errno), where_);
    done += static_cast<std::size_t>(n);
  }
  buffer_.clear();
}

void SpillFile::sync() {
  flush();
  if (::fdatasync(fd_) != 0) throw Error(Code::io, "cannot fsync: " + errno_text(errno), where_);
}

void SpillFile::replay(const std::function<void(std::span<const std::byte>)>& take) {
  flush();
  std::vector<std::byte> block(kBuffer);
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd_, block.data(), block.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot read back: " + errno_text(errno), where_);
    if (n == 0) return;
    take(std::span<const std::byte>(block.data(), static_cast<std::size_t>(n)));
    at += n;
  }
}

}  // namespace mt::data
