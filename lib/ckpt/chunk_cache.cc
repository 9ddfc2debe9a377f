#include "ckpt/chunk_cache.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

ChunkCache::ChunkCache(std::size_t num_chunks, std::uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes), slots_(num_chunks) {
  MT_CHECK(num_chunks > 0, "a cache of {} chunks", num_chunks);
}

// The slot of a chunk with one more user: ready, or to be read by the caller.
ChunkCache::Slot& ChunkCache::claim(const Shard& shard, std::uint64_t chunk, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    const auto known = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) {
      return s.state != State::empty && s.shard == &shard && s.chunk == chunk;
    });
    if (known != slots_.end() && known->state == State::ready) {
      ++known->users;
      return *known;
    }
    if (known == slots_.end()) {
      Slot* oldest = nullptr;
      for (Slot& s : slots_)
        if (s.users == 0 && (!oldest || s.used < oldest->used)) oldest = &s;
      if (oldest) {
        if (!oldest->bytes) oldest->bytes = std::make_unique_for_overwrite<std::byte[]>(chunk_bytes_);
        oldest->shard = &shard;
        oldest->chunk = chunk;
        oldest->state = State::reading;
        oldest->users = 1;
        return *oldest;
      }
    }
    changed_.wait(lock);
  }
}

void ChunkCache::with(const Shard& shard, std::uint64_t chunk, const std::function<void(std::byte*)>& read,
                      const std::function<void(const std::byte*)>& use) {
  std::unique_lock lock(mutex_);
  Slot& slot = claim(shard, chunk, lock);
  slot.used = ++clock_;
  const auto leave = [&](State state) {
    slot.state = state;
    --slot.users;
    changed_.notify_all();
  };
  if (slot.state == State::reading) {
    lock.unlock();
    try {
      read(slot.bytes.get());
    } catch (...) {
      lock.lock();
      leave(State::empty);
      throw;
    }
    lock.lock();
    slot.state = State::ready;
    changed_.notify_all();
  }
  lock.unlock();
  use(slot.bytes.get());
  lock.lock();
  leave(State::ready);
}

}  // namespace mt
