#pragma once
// Memory on a device: a Buffer owns bytes, an Arena hands out pieces of chained blocks and takes them back in order.
//
// Arena memory is reused in stream order: what is launched later on the same stream may overwrite what was allocated
// and rewound earlier. Pointers stay valid until rewind or reset below them, also when the arena grows (blocks chain).
// Code: device/buffer.cc. Tests: tests/device/buffer_test.cc.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace mt {

inline constexpr std::size_t kAlign = 64;  // bytes; every allocation starts on such a border

// pinned: memory of the host that the device reads and writes too; host: memory of the host alone. On a CPU there is no
// difference.
enum class Memory : std::uint8_t { device, pinned, host };

// Owned bytes, zero-filled, move only. Memory of an accelerator may be touched by its kernels and by copies alone.
// Giving back never waits: memory is used again after the work launched before.
//   fails  Error{device} naming the size wanted, when memory is short
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t bytes, Memory memory = Memory::device);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  Device device() const { return device_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
  Memory memory_ = Memory::device;
};

class Arena {
 public:
  struct Mark {
    std::size_t block, used;
  };
  // Blocks of at least `block_bytes`; nothing is allocated before the first use.
  explicit Arena(Device device, std::size_t block_bytes = std::size_t{1} << 20);

  // `bytes` at a kAlign border; content is whatever was there before.
  std::byte* allocate(std::size_t bytes);
  Mark mark() const;
  // Everything allocated after `mark` is free again.
  void rewind(Mark mark);
  void reset() { rewind({0, 0}); }

  Device device() const { return device_; }
  std::size_t used() const { return used_; }            // bytes handed out now, alignment included
  std::size_t high_water() const { return high_water_; }  // most handed out at once
  std::size_t reserved() const;                          // bytes of all blocks

 private:
  Device device_;
  std::size_t block_bytes_, block_ = 0, block_used_ = 0, used_ = 0, high_water_ = 0;
  std::vector<std::size_t> used_before_;  // bytes used in the blocks before each one
  std::vector<Buffer> blocks_;
};

// Rewinds an arena at scope end.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

// Bytes of all live Buffers of this process, and the most there ever were; what a plan is compared with.
std::size_t live_buffer_bytes();
std::size_t peak_buffer_bytes();
// The same of one kind of memory, as it was asked for.
std::size_t live_buffer_bytes(Memory memory);
std::size_t peak_buffer_bytes(Memory memory);
// Start measuring the peaks anew, from what is live now.
void reset_peak_buffer_bytes();

}  // namespace mt
