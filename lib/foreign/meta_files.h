#pragma once
// Models as Meta publishes its own: params.json and consolidated.00.pth, .01 ..., one file a tensor rank.
//
// Queries and keys lie there with the two features of a rotated pair side by side; ours lie in halves, so their rows
// change places. Code: foreign/meta_files.cc. Tests: tests/foreign/meta_files_test.cc.

#include <filesystem>
#include <string>

#include "foreign/source_tensors.h"

namespace mt {

// Its tensors as "consolidated.00.pth/norm.weight", without readers.   fails  as import_meta
SourceTensors meta_tensors(const std::filesystem::path& dir);

// Weights keep their dtypes, and their bits but for the order of these rows.
//   fails  Error{config}: a file of a rank that is missing, a key of params.json that is not represented; as TorchFile and
//          import_tensors; nothing is left then
//   cost   every byte is read once and written once; tensors whole on each rank are compared
Converted import_meta(const ModelImport& what, const BytesDone& progress = {});
// Its tensors, opened and named, as an import of them has them.
ForeignModel open_meta(const std::filesystem::path& from);

}  // namespace mt
