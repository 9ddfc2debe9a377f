#pragma once
// Checkpoints of ours into checkpoints that Megatron loads, weights alone, in both its formats.
//
// Code: foreign/megatron_export.cc, foreign/torch_dist_writer.cc. Tests: tests/foreign/megatron_test.cc; with Megatron Core and
// torch themselves, tests/peers/megatron_round_trip.py.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "foreign/source_tensors.h"

namespace mt {

//   dist  format torch_dist, which any layout loads; else torch, for this tp, pp and ep alone
//   transformer_engine  its names of norms, else the local spec's (of torch_dist the norm before experts alone)
struct MegatronExport {
  std::filesystem::path root;  // a --save directory of Megatron's
  bool dist = false;
  int tp = 1, pp = 1, ep = 1;
  bool transformer_engine = true;
  bool force = false;  // an iteration that is there may be replaced
};

// Weights as stored, args, iteration. Rows of padding are zeros. Optimizer state stays behind.
//   gives  the iteration's directory, which appears when it is whole; then the tracker names it
//   fails  Error{config}: sizes that tp, pp or ep do not divide, a model that Megatron's arguments do not say, weights that are no
//          floats, something else in `root`; Error{io}; as Reader::read
//   cost   every byte is read once and written once, a copy on another rank once more; 32 MiB
Converted export_megatron(const Reader& reader, const MegatronExport& what, const BytesDone& progress = {});

// One tensor of a torch_dist checkpoint.
//   chunk_dims  a chunk is one index of so many first dimensions (layers, experts)
struct DistTensor {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  int chunk_dims = 0;
};
// Write `.metadata` and the data of these tensors into a directory.
//   fill   elements [begin, end), flat, of tensors[i], in ascending order
void write_torch_dist(const std::filesystem::path& dir, std::span<const DistTensor> tensors,
                      const std::function<void(std::size_t i, std::int64_t begin, std::int64_t end, std::byte* out)>& fill);

}  // namespace mt
