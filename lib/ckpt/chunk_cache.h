#pragma once
// Keeps the chunks read last, for readers that want parts of the same chunks again and again.
//
// Threads share it: a chunk that two want is read by one of them. Code: ckpt/chunk_cache.cc. Tests: tests/ckpt/chunk_cache_test.cc.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ckpt/manifest.h"

namespace mt {

class ChunkCache {
 public:
  // Memory for `num_chunks` chunks of `chunk_bytes`, taken as they are used. No more threads than chunks may use it.
  ChunkCache(std::size_t num_chunks, std::uint64_t chunk_bytes);

  // Call `use` with the bytes of a chunk of a shard; where they are not kept, `read` fetches them first. The bytes stay as
  // long as the call.
  //   fails  as `read` does, and then the chunk is not kept
  void with(const Shard& shard, std::uint64_t chunk, const std::function<void(std::byte* out)>& read,
            const std::function<void(const std::byte* bytes)>& use);

 private:
  enum class State : std::uint8_t { empty, reading, ready };
  struct Slot {
    const Shard* shard = nullptr;
    std::uint64_t chunk = 0, used = 0;  // `used`: when, counted
    int users = 0;
    State state = State::empty;
    std::unique_ptr<std::byte[]> bytes;
  };
  Slot& claim(const Shard& shard, std::uint64_t chunk, std::unique_lock<std::mutex>& lock);

  std::uint64_t chunk_bytes_, clock_ = 0;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace mt
