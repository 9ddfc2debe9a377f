#pragma once
// A Hugging Face model into a checkpoint of ours, and back, tensor by tensor, counted both ways: every source tensor is
// used, every target is written exactly once, or nothing is.
//
// Code: foreign/hf_convert.cc. Tests: tests/foreign/hf_convert_test.cc.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "foreign/hf_files.h"

namespace mt {

struct HfImport {
  std::filesystem::path from;  // with config.json
  std::filesystem::path root;  // a --save directory
  std::int64_t iteration = 0;
  std::string version;         // of the program, for the manifest
};

struct HfConverted {
  std::filesystem::path path;
  std::size_t tensors = 0;  // theirs
  std::uint64_t bytes = 0;
  std::vector<std::string> notices;
};

// Weights keep their dtypes; the config and the spelling of names are kept in the manifest (specs.hf) for the way back.
//   fails  Error{config}: a family or a key that is not represented, tensors missing, left over, of another shape or dtype, all
//          named; Error{io}, Error{corrupt} as HfWeights; nothing is left then
//   cost   every byte is read once and written once; 64 MiB and a transposed matrix's block
HfConverted import_hf(const HfImport& what, const BytesDone& progress = {});

struct HfExport {
  HfOutput output;
  std::string family;          // model_type; empty: of `base`, of the manifest, or the first that fits
  std::optional<Json> base;    // config of the model this began as; none: the manifest's, or a new one
};
// Weights as stored. Master weights and what the optimizer keeps stay behind.
//   fails  Error{config}: the model is none of the family, a weight is missing; as write_hf and Reader::read
HfConverted export_hf(const Reader& reader, const HfExport& what, const BytesDone& progress = {});

}  // namespace mt
