#pragma once
// Device memory that is used again without asking the driver: giving back never waits, and neither does taking what
// everybody is done with.
//
// A block given back carries an event of every stream that had work then; it is free once all are past. The driver is
// asked only when nothing fits, and memory goes back to it only when it has no more.
// Code: device/cuda/memory_cache.cu. Tests: tests/device/accelerator_test.cc.

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/runtime.h"

namespace mt::cuda {

class MemoryCache {
 public:
  explicit MemoryCache(int device) : device_(device) {}

  // At least `bytes`, content undefined; null when the device has no more.   fails  Error{device}
  std::byte* acquire(std::size_t bytes);
  void give_back(std::byte* data);

  // An event of every stream that has work now; and whether all of them are past, when they are given back.
  std::vector<cudaEvent_t> mark();
  bool is_past(std::vector<cudaEvent_t>& events, bool wait);

  // Streams whose work blocks given back have to wait for.
  void add_stream(cudaStream_t stream);
  void remove_stream(cudaStream_t stream);  // needs  nothing is pending on it
  // While a stream's work is noted for a graph it has none, and may not be asked. What scratch memory it then has stays
  // where it is as long as the stream lives: the graph's kernels know it.
  void begin_capture(cudaStream_t stream);
  void end_capture(cudaStream_t stream) { add_stream(stream); }
  // See scratch() of launch.h.
  std::byte* scratch(cudaStream_t stream, std::size_t bytes);
  // Where the cache's own work goes; made by the first call.
  cudaStream_t own_stream();

 private:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::vector<cudaEvent_t> pending;
  };
  struct Scratch {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool stays = false;
    std::vector<std::byte*> before;  // that stayed
  };
  std::byte* acquire_locked(std::size_t bytes);
  void give_back_locked(std::byte* data);
  std::vector<cudaEvent_t> mark_locked();
  bool is_past_locked(std::vector<cudaEvent_t>& events, bool wait);
  std::byte* take_fitting(std::size_t bytes, bool wait);
  void release_free();
  cudaEvent_t take_event();

  int device_;
  std::mutex mutex_;
  std::vector<Block> used_, free_;
  std::vector<cudaStream_t> streams_;
  std::map<cudaStream_t, Scratch> scratch_;
  std::vector<cudaEvent_t> spare_events_;
  cudaStream_t own_ = nullptr;
};

// That of a device; lives until the process ends.
MemoryCache& memory_cache(int device);

// Pinned memory in the same way, in powers of two up to 64 MiB, past the streams of all devices.   give null when the host has no more
std::byte* take_pinned(std::size_t bytes);
void give_back_pinned(std::byte* data, std::size_t bytes);

}  // namespace mt::cuda
