#pragma once
// One rank's data file and its table, written piece by piece.
//
// Pieces of several ranks' files may be made in turn, so that a source which many of them need is read once
// (ckpt/reshard.h). Code: ckpt/rank_file.cc. Tests: tests/ckpt/store_test.cc, tests/ckpt/reshard_test.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ckpt/block_writer.h"
#include "ckpt/file_image.h"
#include "ckpt/packed_file.h"

namespace mt {

enum class Codec { none, planes };
Codec codec_of(const std::string& name);  // "none" or kPlaneCodecName; another is a bug

// How bytes go to the disk.
//   codec        planes: the data file is a packed one (ckpt/packed_file.h), named data_%05d.safetensors.mtpack
//   cancel       when it turns true, from another thread, write_rank fails soon
//   piece_bytes  most bytes that are asked for at once
//   block_bytes  see BlockStream
struct WriteOptions {
  WriteMode mode = WriteMode::direct;
  Codec codec = Codec::none;
  const std::atomic<bool>* cancel = nullptr;
  std::uint64_t piece_bytes = kChunkBytes, block_bytes = kBlockBytes;
};

struct WriteResult {
  std::uint64_t file_bytes = 0, tensor_bytes = 0;
  double seconds = 0;
};

class RankFile {
 public:
  // Lays the file out and creates it, if there is anything to write.
  //   needs  `boxes` and `fill` outlive this
  //   fails  Error{io}
  RankFile(const std::filesystem::path& dir, int rank, std::span<const TensorBox> boxes, const ShardFill& fill,
           const WriteOptions& options);

  bool done() const { return at_ == end_; }
  // Where the next piece lies: the box and its first byte in it; nothing within the header.
  std::optional<FileImage::Place> next() const { return image_.place_at(at_); }
  // Make the next piece.   needs  not done   fails  Error{io}; as the fill
  void step();
  // Everything to the disk, then the table.   needs  done   fails  Error{io}
  WriteResult finish();

 private:
  std::filesystem::path dir_;
  int rank_;
  std::uint64_t piece_bytes_;
  FileImage image_;
  std::unique_ptr<BlockStream> plain_;  // one of the two, or none without boxes
  std::unique_ptr<PackedFileWriter> packed_;
  std::vector<std::byte> frame_;
  std::string name_;
  std::uint64_t at_ = 0, end_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace mt
