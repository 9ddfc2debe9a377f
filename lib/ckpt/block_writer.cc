#include "ckpt/block_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::uint64_t kSector = 4096;
constexpr int kNumBlocks = 4, kNumWriters = 2;

struct FreeDeleter {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBlock = std::unique_ptr<std::byte, FreeDeleter>;

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, WriteMode mode) : path_(path) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
#ifdef O_DIRECT
    if (mode == WriteMode::direct) {
      fd_ = ::open(path.c_str(), flags | O_DIRECT, 0666);
      direct_ = fd_ >= 0;
      if (fd_ < 0 && errno != EINVAL && errno != EOPNOTSUPP) fail("create", errno);
    }
#endif
    if (fd_ < 0) fd_ = ::open(path.c_str(), flags, 0666);
    if (fd_ < 0) fail("create", errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool direct() const { return direct_; }
  [[noreturn]] void fail(const char* act, int error_number) const {
    throw Error(Code::io, fmt::format("cannot {}: {}", act, errno_text(error_number)), path_.string(),
                error_number == ENOSPC  ? "free space on that disk or write elsewhere"
                : error_number == EFBIG ? "raise the limit on the size of a file, ulimit -f"
                                        : "");
  }
  // A full disk is told before the first byte instead of after the last. File systems without it are accepted.
  void reserve(std::uint64_t bytes) {
    if (bytes == 0 || ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0) return;
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO) fail("reserve space", errno);
  }
  void write_at(std::uint64_t offset, const std::byte* data, std::uint64_t size) {
    while (size > 0) {
      const auto n = ::pwrite(fd_, data, size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("write", n == 0 ? EIO : errno);
      offset += static_cast<std::uint64_t>(n);
      data += n;
      size -= static_cast<std::uint64_t>(n);
    }
  }
  void start_writeback(std::uint64_t offset, std::uint64_t size) {
    if (!direct_)
      (void)::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE);
  }
  void finish(std::uint64_t total_bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(total_bytes)) != 0) fail("set the size", errno);
    if (::fsync(fd_) != 0) fail("fsync", errno);
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail("close", errno);
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool direct_ = false;
};

struct Work {
  std::uint64_t offset, size;
  std::byte* block;
};

// Hands filled blocks to the writer threads and takes empty ones back. The first failure stops everybody.
class Pipeline {
 public:
  Pipeline(Descriptor& file, std::uint64_t block_bytes) : file_(file) {
    for (int i = 0; i < kNumBlocks; ++i) {
      blocks_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kSector, block_bytes)));
      if (!blocks_.back()) throw std::bad_alloc();
      empty_.push_back(blocks_.back().get());
    }
    for (int i = 0; i < kNumWriters; ++i) writers_.emplace_back([this] { write_loop(); });
  }
  ~Pipeline() { stop(); }

  std::byte* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || !empty_.empty(); });
    if (failure_) std::rethrow_exception(failure_);
    auto* block = empty_.back();  // the one used last is the one still in the cache
    empty_.pop_back();
    return block;
  }
  void put(const Work& work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(work);
    changed_.notify_all();
  }
  void drain() {
    stop();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }
    for (auto& w : writers_) w.join();
    writers_.clear();
  }
  void write_loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto work = queue_.front();
      queue_.pop_front();
      const bool skip = static_cast<bool>(failure_);
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!skip) {
          file_.write_at(work.offset, work.block, work.size);
          file_.start_writeback(work.offset, work.size);
        }
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      empty_.push_back(work.block);
      changed_.notify_all();
    }
  }

  Descriptor& file_;
  std::vector<AlignedBlock> blocks_;
  std::vector<std::byte*> empty_;
  std::deque<Work> queue_;
  std::vector<std::thread> writers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr failure_;
  bool closed_ = false;
};

// How much of a block is written: whole sectors to a direct file. The surplus is zero, and cut off at the end.
std::uint64_t padded_size(const Descriptor& file, std::byte* block, std::uint64_t size) {
  if (!file.direct() || size % kSector == 0) return size;
  const auto padded = (size + kSector - 1) / kSector * kSector;
  std::memset(block + size, 0, padded - size);
  return padded;
}

}  // namespace

struct BlockStream::State {
  Descriptor file;
  std::uint64_t block_bytes;
  Pipeline pipeline;
  std::byte* block = nullptr;
  std::uint64_t at = 0, filled = 0;  // of the block in the file; bytes in it

  State(const std::filesystem::path& path, WriteMode mode, std::uint64_t size)
      : file(path, mode), block_bytes(size), pipeline(file, size) {}
};

BlockStream::BlockStream(const std::filesystem::path& path, WriteMode mode, std::uint64_t expected_bytes,
                         std::uint64_t block_bytes)
    : state_(std::make_unique<State>(path, mode, block_bytes)) {
  MT_CHECK(block_bytes > 0 && block_bytes % kSector == 0, "blocks of {} bytes", block_bytes);
  state_->file.reserve(expected_bytes);
}
BlockStream::~BlockStream() = default;

void BlockStream::put_block() {
  State& s = *state_;
  s.pipeline.put({s.at, padded_size(s.file, s.block, s.filled), s.block});
  s.at += s.filled;
  s.filled = 0;
  s.block = nullptr;
}

std::span<std::byte> BlockStream::room() {
  State& s = *state_;
  if (!s.block) s.block = s.pipeline.take();
  return {s.block + s.filled, s.block_bytes - s.filled};
}

void BlockStream::advance(std::uint64_t bytes) {
  State& s = *state_;
  MT_CHECK(s.block && bytes <= s.block_bytes - s.filled, "{} bytes more", bytes);
  s.filled += bytes;
  if (s.filled == s.block_bytes) put_block();
}

void BlockStream::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto to = room();
    const auto n = std::min(bytes.size(), to.size());
    std::memcpy(to.data(), bytes.data(), n);
    advance(n);
    bytes = bytes.subspan(n);
  }
}

std::uint64_t BlockStream::finish() {
  State& s = *state_;
  if (s.filled > 0) put_block();
  s.pipeline.drain();
  s.file.finish(s.at);
  return s.at;
}

}  // namespace mt
