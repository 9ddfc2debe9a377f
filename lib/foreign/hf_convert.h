#pragma once
// A Hugging Face model into a checkpoint of ours, and back, tensor by tensor, counted both ways: every source tensor is
// used, every target is written exactly once, or nothing is.
//
// Code: foreign/hf_convert.cc. Tests: tests/foreign/hf_convert_test.cc.

#include <optional>
#include <string>

#include "ckpt/reader.h"
#include "foreign/hf_files.h"
#include "foreign/source_tensors.h"

namespace mt {

// Weights keep their dtypes; the config and the spelling of names are kept in the manifest (specs.hf) for the way back.
//   fails  Error{config}: a family or a key that is not represented, tensors missing, left over, of another shape or dtype, all
//          named; Error{io}, Error{corrupt} as HfWeights; nothing is left then
//   cost   every byte is read once and written once; 64 MiB and a transposed matrix's block
Converted import_hf(const ModelImport& what, const BytesDone& progress = {});
// Its tensors, opened and named, as an import of them has them.   fails  as import_hf, but for what import_tensors counts
ForeignModel open_hf(const std::filesystem::path& from);

struct HfExport {
  HfOutput output;
  std::string family;          // model_type; empty: of `base`, of the manifest, or the first that fits
  std::optional<Json> base;    // config of the model this began as; none: the manifest's, or a new one
};
// Weights as stored. Master weights and what the optimizer keeps stay behind.
//   fails  Error{config}: the model is none of the family, a weight is missing, checkpoints of ours lie there; as write_hf and Reader::read
Converted export_hf(const Reader& reader, const HfExport& what, const BytesDone& progress = {});

}  // namespace mt
