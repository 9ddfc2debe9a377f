#include "device/cuda/memory_cache.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "base/error.h"
#include "device/cuda/launch.h"

namespace mt::cuda {

namespace {
// A free block may be this much too large, in eighths.
constexpr std::size_t kSlackEighths = 1;
}  // namespace

namespace {

struct Caches {
  std::mutex mutex;
  std::vector<std::unique_ptr<MemoryCache>> of_device;
};
// Never destroyed: the driver may be gone before our statics are.
Caches& caches() {
  static auto& c = *new Caches;
  return c;
}

}  // namespace

MemoryCache& memory_cache(int device) {
  Caches& c = caches();
  const std::lock_guard lock(c.mutex);
  const auto i = static_cast<std::size_t>(device);
  while (c.of_device.size() <= i)
    c.of_device.push_back(std::make_unique<MemoryCache>(static_cast<int>(c.of_device.size())));
  return *c.of_device[i];
}

std::vector<cudaEvent_t> MemoryCache::mark() {
  const std::lock_guard lock(mutex_);
  return mark_locked();
}

bool MemoryCache::is_past(std::vector<cudaEvent_t>& events, bool wait) {
  // Without the lock: what is waited for may need another rank, which may be about to give memory back.
  if (wait)
    for (const cudaEvent_t e : events) check(cudaEventSynchronize(e), "cudaEventSynchronize", device_);
  const std::lock_guard lock(mutex_);
  return is_past_locked(events, false);
}

std::vector<cudaEvent_t> MemoryCache::mark_locked() {
  std::vector<cudaEvent_t> events;
  for (const cudaStream_t stream : streams_) {
    if (cudaStreamQuery(stream) == cudaSuccess) continue;
    cudaGetLastError();  // it is no error
    use_device(device_);
    events.push_back(take_event());
    check(cudaEventRecord(events.back(), stream), "cudaEventRecord", device_);
  }
  return events;
}

bool MemoryCache::is_past_locked(std::vector<cudaEvent_t>& events, bool wait) {
  while (!events.empty()) {
    const cudaEvent_t event = events.back();
    const cudaError_t state = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // it is no error
      return false;
    }
    check(state, "cudaEventQuery", device_);
    spare_events_.push_back(event);
    events.pop_back();
  }
  return true;
}

std::byte* MemoryCache::take_fitting(std::size_t bytes, bool wait) {
  Block* best = nullptr;
  for (Block& b : free_)
    if (b.bytes >= bytes && b.bytes <= bytes + bytes / 8 * kSlackEighths && (!best || b.bytes < best->bytes) &&
        is_past_locked(b.pending, wait))
      best = &b;
  if (!best) return nullptr;
  used_.push_back(std::move(*best));
  *best = std::move(free_.back());
  free_.pop_back();
  return used_.back().data;
}

void MemoryCache::release_free() {
  for (Block& b : free_) {
    is_past_locked(b.pending, true);
    check(cudaFree(b.data), "cudaFree", device_);
  }
  free_.clear();
}

std::byte* MemoryCache::acquire(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return acquire_locked(bytes);
}

void MemoryCache::give_back(std::byte* data) {
  const std::lock_guard lock(mutex_);
  give_back_locked(data);
}

std::byte* MemoryCache::acquire_locked(std::size_t bytes) {
  use_device(device_);
  if (std::byte* p = take_fitting(bytes, false)) return p;
  void* fresh = nullptr;
  cudaError_t error = cudaMalloc(&fresh, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    if (std::byte* p = take_fitting(bytes, true)) return p;
    release_free();
    error = cudaMalloc(&fresh, bytes);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, "cudaMalloc", device_);
  used_.push_back({static_cast<std::byte*>(fresh), bytes, {}});
  return used_.back().data;
}

cudaEvent_t MemoryCache::take_event() {
  if (!spare_events_.empty()) {
    const cudaEvent_t event = spare_events_.back();
    spare_events_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", device_);
  return event;
}

void MemoryCache::give_back_locked(std::byte* data) {
  use_device(device_);
  const auto at = std::find_if(used_.begin(), used_.end(), [&](const Block& b) { return b.data == data; });
  MT_CHECK(at != used_.end(), "no block of {} starts there", device_text({DeviceKind::cuda, device_}));
  free_.push_back(std::move(*at));
  *at = std::move(used_.back());
  used_.pop_back();
  free_.back().pending = mark_locked();
}

void MemoryCache::add_stream(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

void MemoryCache::remove_stream(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (const auto at = scratch_.find(stream); at != scratch_.end()) {
    for (std::byte* data : at->second.before) give_back_locked(data);
    if (at->second.data) give_back_locked(at->second.data);
    scratch_.erase(at);
  }
  std::erase(streams_, stream);
}

void MemoryCache::begin_capture(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, stream);
  if (const auto at = scratch_.find(stream); at != scratch_.end()) at->second.stays = true;
}

std::byte* MemoryCache::scratch(cudaStream_t stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Scratch& s = scratch_[stream];
  if (s.bytes >= bytes) return s.data;
  if (s.data && s.stays) s.before.push_back(s.data);
  else if (s.data) give_back_locked(s.data);
  s.stays = false;
  s.data = acquire_locked(bytes);
  s.bytes = s.data ? bytes : 0;
  if (!s.data) {
    throw Error(Code::device, fmt::format("no memory for {} bytes that a kernel works with", bytes),
                device_text({DeviceKind::cuda, device_}), "use a smaller micro-batch, more ranks, or recompute");
  }
  return s.data;
}

std::byte* scratch(const Stream& stream, std::size_t bytes) {
  return memory_cache(stream.device().index).scratch(native(stream), bytes);
}

cudaStream_t MemoryCache::own_stream() {
  const std::lock_guard lock(mutex_);
  if (!own_) {
    use_device(device_);
    check(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "cudaStreamCreate", device_);
  }
  return own_;
}

namespace {

// Blocks that wait to be used again; more, or larger ones, go back to the driver, which takes its time. The emulation
// wants all of them: it watches for who touches memory given back.
constexpr std::size_t kMostPinned = kEmulated ? 0 : 64, kLargestPinned = std::size_t{64} << 20;

// Sizes go up to a power of two, so that one block serves many; a large one keeps its own.
std::size_t block_bytes(std::size_t bytes) {
  return kEmulated || bytes > kLargestPinned ? bytes : std::bit_ceil(std::max<std::size_t>(bytes, 4096));
}

struct PinnedBlock {
  std::byte* data;
  std::size_t bytes;
  std::vector<std::pair<MemoryCache*, std::vector<cudaEvent_t>>> pending;
  bool is_free() {
    for (auto& [cache, events] : pending)
      if (!cache->is_past(events, false)) return false;
    return true;
  }
  void wait() {
    for (auto& [cache, events] : pending) cache->is_past(events, true);
  }
  void free() { check(cudaFreeHost(data), "cudaFreeHost", -1); }
};
struct PinnedCache {
  std::mutex mutex;
  std::vector<PinnedBlock> blocks;
};
PinnedCache& pinned_cache() {
  static auto& c = *new PinnedCache;
  return c;
}

// What is kept beyond the bounds goes back to the driver once nothing uses it. Nobody waits for that: what uses it may be
// a message that waits for this very rank.
void let_go(PinnedCache& c) {
  std::size_t small = 0;
  for (const PinnedBlock& b : c.blocks) small += b.bytes <= kLargestPinned ? 1 : 0;
  std::erase_if(c.blocks, [&](PinnedBlock& b) {
    const bool is_small = b.bytes <= kLargestPinned;
    if ((is_small && small <= kMostPinned) || !b.is_free()) return false;
    b.free();
    small -= is_small ? 1 : 0;
    return true;
  });
}

}  // namespace

std::byte* take_pinned(std::size_t wanted) {
  const std::size_t bytes = block_bytes(wanted);
  PinnedCache& c = pinned_cache();
  const std::lock_guard lock(c.mutex);
  let_go(c);
  const auto at = std::find_if(c.blocks.begin(), c.blocks.end(),
                               [&](PinnedBlock& b) { return b.bytes == bytes && b.is_free(); });
  if (at != c.blocks.end()) {
    std::byte* data = at->data;
    c.blocks.erase(at);
    return data;
  }
  void* fresh = nullptr;
  const auto allocate = [&] { return cudaHostAlloc(&fresh, bytes, cudaHostAllocPortable | cudaHostAllocMapped); };
  cudaError_t error = allocate();
  if (error == cudaErrorMemoryAllocation && !c.blocks.empty()) {
    cudaGetLastError();
    for (PinnedBlock& b : c.blocks) b.wait(), b.free();
    c.blocks.clear();
    error = allocate();
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, "cudaHostAlloc", -1);
  return static_cast<std::byte*>(fresh);
}

void give_back_pinned(std::byte* data, std::size_t bytes) {
  PinnedBlock block{data, block_bytes(bytes), {}};
  {
    Caches& all = caches();
    const std::lock_guard lock(all.mutex);
    for (const auto& cache : all.of_device)
      if (auto events = cache->mark(); !events.empty()) block.pending.emplace_back(cache.get(), std::move(events));
  }
  PinnedCache& c = pinned_cache();
  const std::lock_guard lock(c.mutex);
  c.blocks.push_back(std::move(block));
  let_go(c);
}

}  // namespace mt::cuda
