#pragma once
// The table of contents of a checkpoint: which boxes of which tensors lie where, with sizes and hashes.
//
// A checkpoint is a directory iter_%07d with `manifest.json` and data files. Every tensor is known by (name, kind):
// the global name of the unfused logical tensor, and what it holds ("weight", "master", "exp_avg", "exp_avg_sq", or
// any word the writer chooses). Its shape is the true one, without padding. Its shards are boxes that cover it exactly
// once; how they were spread over ranks when written does not matter to a reader.
//
// Hashes: the bytes of a shard are cut in chunks of `chunk_bytes` (the last one shorter) and each has its XXH3, so a
// reader of a part verifies no more than the chunks it touches. In JSON, `xxh3` is 16 hex digits a chunk, end to end.
// The manifest's own last field `xxh3` is the hash of its text without that field; manifests of older programs lack it.
// Code: ckpt/manifest.cc. Tests: tests/ckpt/manifest_test.cc. Format: man/mt-checkpoint.5.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "layout/box.h"

namespace mt {

inline constexpr std::uint64_t kChunkBytes = 4u << 20;
inline constexpr const char* kManifestName = "manifest.json";

// A box of a tensor, by name: what a rank holds, writes or wants.
//   shape  of the whole tensor;  box  in global coordinates
struct TensorBox {
  std::string name;
  std::string kind = "weight";
  DType dtype = DType::f32;
  Dims shape;
  Box box;

  bool operator==(const TensorBox&) const = default;
  // Bytes of the box, stored row-major.
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(bytes_of(dtype, box.size())); }
};

// "decoder.final_layernorm.weight (exp_avg)"
std::string tensor_text(std::string_view name, std::string_view kind);

// One stored box.
//   file        index into Manifest::files
//   begin, end  bytes from the start of the file, of the plain one where it is packed
struct Shard {
  Box box;
  std::uint32_t file = 0;
  std::uint64_t begin = 0, end = 0;
  std::vector<std::uint64_t> chunk_xxh3;

  bool operator==(const Shard&) const = default;
};

struct TensorEntry {
  std::string name, kind;
  DType dtype = DType::f32;
  Dims shape;
  std::vector<Shard> shards;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(bytes_of(dtype, num_elements(shape))); }
};

//   bytes        on the disk
//   codec        "" for a safetensors file; else it is stored packed (ckpt/packed_file.h)
//   plain_bytes  of the safetensors file that is packed, where shards' begin and end point
struct DataFile {
  std::string name;  // inside the checkpoint directory, no path
  std::uint64_t bytes = 0;
  std::string codec;
  std::uint64_t plain_bytes = 0;

  std::uint64_t content_bytes() const { return codec.empty() ? bytes : plain_bytes; }
};

// What the writer of a checkpoint says about the run; `specs` and `training` are its own and come back unchanged.
struct CheckpointMeta {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  int world_size = 1;              // ranks that wrote; each has written rank_%05d.json
  std::string version;             // of the program, cli::version()
  std::string tokenizer;           // fingerprint; may be empty
  Json specs = Json::object();     // model and layout
  Json training = Json::object();  // step counters, schedules, scaler, data position
};

struct Manifest {
  CheckpointMeta meta;
  std::uint64_t chunk_bytes = kChunkBytes;
  std::vector<DataFile> files;
  std::vector<TensorEntry> tensors;
  bool has_checksum = false;  // set by parse_manifest: the text had a checksum, and it was right

  // The entry of a tensor, or null.   cost  two short hashes
  const TensorEntry* find(std::string_view name, std::string_view kind) const;
  // Rebuild the look-up after changing `tensors`; read_manifest has done it.
  //   gives  an entry whose (name, kind) another has, too, or null; the first of them is found
  const TensorEntry* index();
  std::uint64_t tensor_bytes() const;

 private:
  std::size_t slot_of(std::string_view name, std::string_view kind) const;  // where it is, or where it would go
  std::vector<std::uint32_t> slots_;  // open addressing: place in `tensors` + 1, 0 for empty
};

// Read `dir`/manifest.json and check everything that can be checked without opening data: field types, names that stay
// inside the directory, boxes inside shapes, byte counts, hash counts, ranges inside files that do not overlap,
// that every tensor is covered exactly once, and last the checksum of the text when it has one.
//   fails  Error{io} no such file; Error{corrupt} naming file, tensor, wanted and found
//   cost   one parse; about 50 ms for 100,000 tensors
Manifest read_manifest(const std::filesystem::path& dir);
Manifest parse_manifest(std::string_view text, const std::string& where);

// The text of manifest.json, a tensor a line, with its checksum.
std::string manifest_text(const Manifest& manifest);

// What is wrong with the boxes of a tensor, "" when they cover it exactly once: names the first box that leaves the
// shape, two that overlap, or how many elements are missing.
//   cost  n log n in the number of boxes when they are rows; worst case n^2
std::string coverage_problem(const Dims& shape, const std::vector<Box>& boxes);

}  // namespace mt
