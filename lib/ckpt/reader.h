#pragma once
// Read any boxes of any tensors out of a checkpoint, whatever layout wrote it, by intersecting boxes.
//
// The reader goes over the stored shards, not over the requests: each chunk of a shard that some request touches is
// read once, its hash is compared, and its parts are placed where they are wanted, by several threads. A shard that
// lies in its destination as it lies in the file is read straight into place.
// Code: ckpt/reader.cc, ckpt/box_copy.h. Tests: tests/ckpt/reader_test.cc, tests/ckpt/reshard_test.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "ckpt/chunk_cache.h"
#include "ckpt/manifest.h"

namespace mt {

// A box wanted and where to put it.
//   what              name, kind, dtype of the destination, the shape the caller believes in, the box
//   out               the box row-major; not needed by check()
//   row_stride_bytes  distance of consecutive rows (runs of the last dimension) in `out`; 0: rows touch
//   convert           allow another stored dtype: f64, f32, bf16, f16 among each other, rounded to nearest even once
struct TensorRequest {
  TensorBox what;
  std::byte* out = nullptr;
  std::int64_t row_stride_bytes = 0;
  bool convert = false;
};

struct ReaderOptions {
  int num_threads = 0;  // 0: as many as cores, at most 8
  bool verify = true;   // compare the hash of every chunk touched
  // Chunks kept from one read() to the next, for calls that want parts of the same ones; each is then read whole.
  std::size_t cached_chunks = 0;
};

class Reader {
 public:
  // Open a checkpoint directory (iter_%07d) by its manifest; see iterations.h to find one.
  //   fails  as read_manifest
  //   cost   the manifest; data files are opened when first read
  explicit Reader(const std::filesystem::path& dir, ReaderOptions options = {});

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& dir() const { return dir_; }

  // Say whether read() could serve these requests, without memory for them, so that a load which cannot be met stops
  // before anything is allocated. Data files must be there with their size.
  //   fails  Error{config} naming tensor, wanted and found (the first of them, and how many more); Error{corrupt} for a
  //          data file that is missing or has another size
  void check(std::span<const TensorRequest> requests) const;

  // check(), then fill every `out`.
  //   fails  as check; Error{io}; Error{corrupt} naming file, tensor, box and chunk where a hash differs. Destinations
  //          are then partly written.
  //   cost   each touched chunk is read once; scratch memory of one chunk a thread, or of the cached ones
  void read(std::span<const TensorRequest> requests) const;

  // Finite elements that became infinite in another dtype, in all reads so far.
  std::int64_t num_overflowed() const { return overflowed_; }

 private:
  std::filesystem::path dir_;
  ReaderOptions options_;
  Manifest manifest_;
  std::unique_ptr<ChunkCache> cache_;
  mutable std::atomic<std::int64_t> overflowed_{0};
};

// True for two dtypes that TensorRequest::convert may turn into each other.
bool convertible(DType from, DType to);

}  // namespace mt
