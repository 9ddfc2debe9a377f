#pragma once
// Rewrite a checkpoint so that each new rank's bytes lie in one file, through the loader's own intersection code.
//
// What each new rank owns is an argument, a list of boxes a rank; this room knows no model. Bytes stream: memory does
// not grow with the model.
// Code: ckpt/reshard.cc. Tests: tests/ckpt/reshard_test.cc.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ckpt/reader.h"
#include "ckpt/store.h"

namespace mt {

struct Resharding {
  std::vector<std::vector<TensorBox>> owned;  // by new rank
  Json specs;                                 // in place of the stored ones
  bool weights_only = false;                  // tensors of other kinds are left out
  bool convert = false;                       // boxes may have another float dtype than is stored
  Codec codec = Codec::none;
};

inline constexpr std::size_t kReshardChunks = 12;

// Write `source` under `root` as the same iteration, with one data file for each element of `owned` that has boxes.
// Iteration, samples, training state and tokenizer stay.
//   needs  boxes with the stored name, kind, dtype and shape that cover every tensor (every weight) exactly once
//   gives  path of the new iter_%07d; the tracker of `root` names it
//   fails  Error{config} before anything is written when boxes do not fit or do not cover; as Reader::read and
//          write_rank, and then the temporary directory is removed
//   cost   every byte is copied and written once. Of a `source` that keeps kReshardChunks chunks every byte is read once for up
//          to 64 new files (4 packed ones), which are written side by side; for more, once for each 64. 64 MiB and two threads a file beside
//          the chunks
std::filesystem::path reshard(const Reader& source, const std::filesystem::path& root,
                              const Resharding& to, const BytesDone& progress = {});

// Spread every tensor evenly over `num_shards` ranks by rows of its first dimension that can be cut.
std::vector<std::vector<TensorBox>> split_by_rows(const Manifest& manifest, int num_shards);

}  // namespace mt
