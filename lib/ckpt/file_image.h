#pragma once
// The bytes of one rank's data file in order, made as they are asked for: a safetensors header, then its boxes.
//
// Hashes of chunks are taken while the bytes pass. Code: ckpt/file_image.cc. Tests: tests/ckpt/store_test.cc.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "ckpt/manifest.h"

namespace mt {

// Gives bytes [begin, end) of boxes[shard], in ascending order.
using ShardFill =
    std::function<void(std::size_t shard, std::uint64_t begin, std::uint64_t end, std::byte* out)>;

inline constexpr const char* kRankFormat = "mt-rank";

class FileImage {
 public:
  // Lays the boxes out; empty ones are left out (but for tensors that have no elements at all).
  //   needs  boxes inside their shapes; both arguments outlive this. No fill gets more than `piece_bytes`.
  FileImage(std::span<const TensorBox> boxes, const ShardFill& fill, std::uint64_t piece_bytes);

  bool empty() const { return order_.empty(); }
  std::uint64_t size() const { return ends_.empty() ? header_.size() : ends_.back(); }
  std::uint64_t tensor_bytes() const { return size() - header_.size(); }

  // Bytes [offset, offset + size) of the file.
  //   needs  calls in ascending order, without gaps
  void fill(std::uint64_t offset, std::byte* out, std::uint64_t size);

  // What lies at `offset`: so many bytes, of elements this wide, up to the end of a chunk; at most kChunkBytes.
  struct Run {
    std::uint64_t bytes;
    std::size_t width;
  };
  Run run_at(std::uint64_t offset) const;

  // Which box that is, and which of its bytes; nothing for the header.
  struct Place {
    std::size_t shard;
    std::uint64_t begin;
  };
  std::optional<Place> place_at(std::uint64_t offset) const;

  // The rank's table: its head, without "tensors", for an empty file; and the tensors with their hashes, once all bytes
  // have passed.
  Json table_head(int rank) const;
  Json table() const;

 private:
  std::size_t index_at(std::uint64_t offset) const;
  std::uint64_t begin_of(std::size_t k) const { return k == 0 ? header_.size() : ends_[k - 1]; }
  std::uint64_t fill_chunk(std::uint64_t offset, std::byte* out, std::uint64_t end);

  std::span<const TensorBox> boxes_;
  const ShardFill& fill_;
  std::uint64_t piece_bytes_;
  std::vector<std::size_t> order_;
  std::string header_;
  std::vector<std::uint64_t> ends_;  // in the file, of each shard of order_
  std::vector<std::vector<std::uint64_t>> hashes_;
  std::size_t current_ = 0;
  std::unique_ptr<Xxh3Stream> stream_;
};

}  // namespace mt
