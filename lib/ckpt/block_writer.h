#pragma once
// Write a file in large aligned blocks, filling the next block while earlier ones go to the disk.
//
// Two modes. `direct` opens with O_DIRECT, so the page cache neither copies nor delays the bytes; where the file system
// refuses (tmpfs, some network file systems) it falls back to `buffered` by itself. Both end with fsync: when finish()
// returns, the bytes are on the disk. Measured on one virtio disk: direct 3 GB/s, buffered + fdatasync 0.4 to 2.6.
// Code: ckpt/block_writer.cc. Tests: tests/ckpt/block_writer_test.cc, tests/bench/ckpt_bench.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace mt {

enum class WriteMode { direct, buffered };

inline constexpr std::uint64_t kBlockBytes = 4u << 20;

// A file being written. Memory: four blocks; two threads that live as long as this.
class BlockStream {
 public:
  // Create `path`.
  //   expected_bytes  reserved on the disk, so that a full one is told before the first byte; 0: not known
  //   block_bytes     a multiple of 4096
  //   fails           Error{io} with path and the system's words
  BlockStream(const std::filesystem::path& path, WriteMode mode, std::uint64_t expected_bytes = 0,
              std::uint64_t block_bytes = kBlockBytes);
  // A file that was not finished stays as it is.
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // Where the next bytes go: the rest of the block, never empty; advance() says how many were put there. Waits for a block.
  //   fails  Error{io}, perhaps for bytes of earlier calls
  std::span<std::byte> room();
  void advance(std::uint64_t bytes);

  // The same for bytes that lie elsewhere.
  void append(std::span<const std::byte> bytes);

  // Write what is left and fsync.   gives  the size of the file   fails  Error{io}
  std::uint64_t finish();

 private:
  struct State;
  void put_block();
  std::unique_ptr<State> state_;
};

}  // namespace mt
