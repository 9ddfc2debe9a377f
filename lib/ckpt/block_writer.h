#pragma once
// Write a file of known size in large aligned blocks, filling the next block while earlier ones go to the disk.
//
// Two modes. `direct` opens with O_DIRECT, so the page cache neither copies nor delays the bytes; where the file system
// refuses (tmpfs, some network file systems) it falls back to `buffered` by itself. Both end with fsync: when the call
// returns, the bytes are on the disk. Measured on one virtio disk: direct 3 GB/s, buffered + fdatasync 0.4 to 2.6.
// Code: ckpt/block_writer.cc. Tests: tests/ckpt/block_writer_test.cc, tests/bench/ckpt_bench.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace mt {

enum class WriteMode { direct, buffered };

inline constexpr std::uint64_t kBlockBytes = 4u << 20;

// Create `path` with `total_bytes` bytes and fsync it. `fill(offset, out, size)` must produce the bytes
// [offset, offset + size) of the file; it is called in the caller's thread, once per block, in ascending order.
//   fails  Error{io} with path and the system's words; whatever `fill` throws. A partial file may stay.
//   cost   memory: four blocks; two writer threads that live as long as the call
void write_blocks(const std::filesystem::path& path, std::uint64_t total_bytes, WriteMode mode,
                  const std::function<void(std::uint64_t offset, std::byte* out, std::uint64_t size)>& fill);

// The same for a file whose size is not known before its end.
class BlockStream {
 public:
  //   fails  Error{io}
  BlockStream(const std::filesystem::path& path, WriteMode mode);
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // The next bytes. They are copied.   fails  Error{io}, perhaps for bytes of an earlier call
  void append(std::span<const std::byte> bytes);

  // Write what is left and fsync.   gives  the size of the file   fails  Error{io}
  std::uint64_t finish();

 private:
  struct State;
  void put_block();
  std::unique_ptr<State> state_;
};

}  // namespace mt
