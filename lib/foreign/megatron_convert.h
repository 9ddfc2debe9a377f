#pragma once
// Checkpoints of Megatron's into checkpoints of ours, of both its formats.
//
// Code: foreign/megatron_convert.cc. Tests: tests/foreign/megatron_test.cc; with the packages, tests/peers/megatron_round_trip.py.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "foreign/source_tensors.h"

namespace mt {

struct MegatronImport {
  std::filesystem::path from;  // a --save directory of Megatron's, or an iteration in it
  std::filesystem::path root;  // a --save directory of ours
  std::optional<std::int64_t> iteration;   // to read, instead of the tracker's
  std::optional<std::int64_t> vocab_size;  // true size, where the args do not say it
  std::string version;                     // of the program, for the manifest
  bool weights_only = false;               // what the optimizer keeps stays behind
};

// What a checkpoint says of itself, from the pickles alone.
struct MegatronSummary {
  std::filesystem::path dir;
  std::string format;  // "megatron" (torch) or "megatron-dist"
  std::int64_t iteration = 0, consumed_samples = 0;
  Json layout = Json::object();
  Json args = Json::object();
  SourceTensors tensors;  // without readers
};
//   fails  as import_megatron, but for what is said of the model
MegatronSummary megatron_summary(const std::filesystem::path& from, std::optional<std::int64_t> iteration);

// The number of a directory iter_0000000 (ckpt/soundness.h); of any other, release among them, 0.
std::int64_t megatron_iteration(const std::filesystem::path& dir);

// Weights, with their bits and dtypes, the directory's iteration and the samples consumed; the args are kept in the manifest
// (specs.megatron) for the way back. What Adam keeps (foreign/megatron_optimizer.h) and where the run stood come along.
//   fails  Error{config}, Error{corrupt}, Error{io} as megatron_directory, MegatronFiles, TorchDist, model_of_megatron,
//          add_megatron_state and import_tensors; nothing is left then
//   cost   as import_tensors
Converted import_megatron(const MegatronImport& what, const BytesDone& progress = {});
// Its tensors, opened and named, as an import of them has them.   iteration, vocab_size  as in MegatronImport
ForeignModel open_megatron(const std::filesystem::path& from, std::optional<std::int64_t> iteration, std::optional<std::int64_t> vocab_size = std::nullopt, bool weights_only = false);

}  // namespace mt
