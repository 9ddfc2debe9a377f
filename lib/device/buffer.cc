#include "device/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "device/backend.h"

namespace mt {

namespace {

struct Count {
  std::atomic<std::size_t> live{0}, peak{0};
};
constexpr int kMostDevices = 64;  // those beyond are counted as the last

struct Counts {
  Count all, of[3];  // by Memory
  std::atomic<std::size_t> on_device[kMostDevices] = {};
};
Counts& counts() {
  static Counts c;
  return c;
}
Count& count(Memory memory) { return counts().of[static_cast<std::size_t>(memory)]; }
std::atomic<std::size_t>& on_device(Device device) {
  return counts().on_device[std::min(device.index, kMostDevices - 1)];
}

Error no_memory(Device device, std::size_t bytes, Memory memory) {
  const auto error = [&](const char* what, std::size_t in_use, const char* hint) {
    return Error(Code::device, fmt::format("no {} for {} bytes, this process has {} of it in use", what, bytes, in_use),
                 device_text(device), hint);
  };
  const char* less = "use a smaller micro-batch, more ranks, or recompute";
  if (device.kind == DeviceKind::cpu) return error("memory", live_buffer_bytes(), less);
  if (memory == Memory::device) return error("memory", on_device(device).load(), less);
  return error(memory == Memory::pinned ? "pinned memory of the host" : "memory of the host", live_buffer_bytes(memory),
               "offload less, or start fewer ranks on this host");
}

void add_live(Count& count, std::size_t bytes) {
  const std::size_t now = count.live.fetch_add(bytes) + bytes;
  std::size_t peak = count.peak.load();
  while (now > peak && !count.peak.compare_exchange_weak(peak, now)) {
  }
}

std::size_t round_up(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// From here on a buffer is mapped by itself: the kernel gives zero pages, and large pages where it can.
constexpr std::size_t kMapBytes = std::size_t{1} << 21;

std::byte* acquire(std::size_t bytes) {
  if (bytes >= kMapBytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    madvise(p, bytes, MADV_HUGEPAGE);
    return static_cast<std::byte*>(p);
  }
  void* p = std::aligned_alloc(kAlign, round_up(bytes));
  if (p != nullptr) __builtin_memset(p, 0, bytes);
  return static_cast<std::byte*>(p);
}

std::byte* acquire(Device device, std::size_t bytes, Memory memory) {
  if (device.kind == DeviceKind::cpu || memory == Memory::host) return acquire(bytes);
  return memory == Memory::pinned ? cuda_backend().acquire_pinned(bytes) : cuda_backend().acquire(device.index, bytes);
}

void give_back(std::byte* data, std::size_t bytes) {
  if (bytes >= kMapBytes) munmap(data, bytes);
  else std::free(data);
}

}  // namespace

Buffer::Buffer(Device device, std::size_t bytes, Memory memory) : size_(bytes), device_(device), memory_(memory) {
  if (bytes == 0) return;
  data_ = acquire(device, bytes, memory);
  if (data_ == nullptr) throw no_memory(device, bytes, memory);
  add_live(counts().all, bytes);
  add_live(count(memory), bytes);
  if (memory_ == Memory::device && device_.kind != DeviceKind::cpu) on_device(device).fetch_add(bytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      device_(other.device_),
      memory_(other.memory_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_.kind == DeviceKind::cpu || memory_ == Memory::host) give_back(data_, size_);
  else if (memory_ == Memory::pinned) cuda_backend().give_back_pinned(data_, size_);
  else cuda_backend().give_back(device_.index, data_, size_);
  counts().all.live.fetch_sub(size_);
  count(memory_).live.fetch_sub(size_);
  if (memory_ == Memory::device && device_.kind != DeviceKind::cpu) on_device(device_).fetch_sub(size_);
}

Arena::Arena(Device device, std::size_t block_bytes) : device_(device), block_bytes_(block_bytes) {}

std::byte* Arena::allocate(std::size_t bytes) {
  const std::size_t want = round_up(bytes);
  // A block too small for the request is passed over; it counts as used up to where it was.
  while (block_ < blocks_.size() && blocks_[block_].size() - block_used_ < want) {
    ++block_;
    block_used_ = 0;
    if (block_ < blocks_.size()) used_before_[block_] = used_;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(device_, want > block_bytes_ ? want : round_up(block_bytes_));
    used_before_.push_back(used_);
    block_used_ = 0;
  }
  std::byte* p = blocks_[block_].data() + block_used_;
  block_used_ += want;
  used_ += want;
  if (used_ > high_water_) high_water_ = used_;
  return p;
}

Arena::Mark Arena::mark() const { return {block_, block_used_}; }

void Arena::rewind(Mark mark) {
  MT_CHECK(mark.block < block_ || (mark.block == block_ && mark.used <= block_used_),
           "rewind forward: block {} used {}, now {} {}", mark.block, mark.used, block_, block_used_);
  block_ = mark.block;
  block_used_ = mark.used;
  used_ = blocks_.empty() ? 0 : used_before_[block_] + block_used_;
}

std::size_t Arena::reserved() const {
  std::size_t n = 0;
  for (const Buffer& b : blocks_) n += b.size();
  return n;
}

std::size_t live_buffer_bytes() { return counts().all.live.load(); }
std::size_t peak_buffer_bytes() { return counts().all.peak.load(); }
std::size_t live_buffer_bytes(Memory memory) { return count(memory).live.load(); }
std::size_t peak_buffer_bytes(Memory memory) { return count(memory).peak.load(); }
void reset_peak_buffer_bytes() {
  for (Count* c : {&counts().all, &counts().of[0], &counts().of[1], &counts().of[2]}) c->peak = c->live.load();
}

}  // namespace mt
