#pragma once
// A data file stored packed: frames that each hold a range of the plain file, and an index, so that any part can be read.
//
//   8 bytes    "MTPACK1\n"
//   frames     end to end, each a range of the plain file packed by ckpt/plane_codec.h
//   index      a frame each, in order: width (1 byte), plain bytes (u32), stored bytes of each of its planes (u32)
//   32 bytes   start of the index (u64), number of frames (u64), XXH3 of the index (u64), "MTPACK1\n"; little-endian
//
// The plain file is the safetensors file that would have been written; manifests speak of places in that. A frame never
// spans two chunks of hashes, so a chunk is read by unpacking one frame.
// Code: ckpt/packed_file.cc. Tests: tests/ckpt/packed_file_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ckpt/block_writer.h"
#include "ckpt/plane_codec.h"

namespace mt {

inline constexpr const char* kPackedSuffix = ".mtpack";  // behind the plain file's name
inline constexpr std::uint64_t kMostFrameBytes = 64u << 20;

// Writes one, frame after frame.
class PackedFileWriter {
 public:
  //   fails  Error{io}
  PackedFileWriter(const std::filesystem::path& path, WriteMode mode, std::uint64_t block_bytes = kBlockBytes);

  // The next range of the plain file.
  //   needs  at most kMostFrameBytes, whole elements of `width` bytes
  //   fails  Error{io}
  void add(std::span<const std::byte> plain, std::size_t width);

  // The index, and everything to the disk.   gives  the size of the file
  std::uint64_t finish();

 private:
  BlockStream out_;
  PlaneCodec codec_;
  std::string index_;
  std::vector<std::uint32_t> sizes_;
  std::uint64_t at_ = 0, num_frames_ = 0;
};

// Reads one. For one thread.
class PackedFile {
 public:
  // Read the index of an open file of `file_bytes` bytes, which is borrowed.
  //   fails  Error{io}; Error{corrupt} naming the file and what is wrong with its index
  //   cost   the index: 13 bytes for 4 MiB of bf16, 21 for 4 MiB of f32
  PackedFile(int fd, std::uint64_t file_bytes, std::string path);

  std::uint64_t plain_bytes() const { return plain_bytes_; }

  // Bytes [begin, end) of the plain file.
  //   needs  a range inside it
  //   fails  Error{io}; Error{corrupt} naming the file and the frame's place
  //   cost   frames it touches are read and unpacked whole; the last one is kept for the next call
  void read(std::uint64_t begin, std::uint64_t end, std::byte* out);

 private:
  struct Frame {
    std::uint64_t plain = 0, stored = 0;  // where it begins
    std::uint32_t plain_bytes = 0, stored_bytes = 0;
    std::size_t first_size = 0;
    std::uint8_t width = 0;
  };
  void parse_index(std::string_view index, std::uint64_t num_frames, std::uint64_t index_at);
  void unpack(const Frame& frame, std::span<std::byte> out);

  int fd_;
  std::string path_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> sizes_;  // of planes, of all frames
  std::uint64_t plain_bytes_ = 0;
  PlaneCodec codec_;
  std::vector<std::byte> stored_, kept_;
  const Frame* kept_frame_ = nullptr;
};

}  // namespace mt
