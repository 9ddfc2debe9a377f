#pragma once
// Models in GGUF files into checkpoints of ours: those of architecture llama (Mistral's are, too) and qwen2.
//
// Of llama the rows of queries and keys lie in pairs there and in halves here; of qwen2 they lie in halves already.
// Code: foreign/gguf_convert.cc. Tests: tests/foreign/gguf_test.cc.

#include <filesystem>
#include <string>

#include "foreign/source_tensors.h"

namespace mt {

// Tensors by their names there, without readers.   fails  as GgufFile
SourceTensors gguf_tensors(const std::filesystem::path& path);

// F32, F16 and BF16 keep their bits, Q8_0 becomes f32, and a notice counts those.
//   fails  Error{config}: another architecture, values that are missing or not represented, tensors of other types (named);
//          as GgufFile and import_tensors; nothing is left then
Converted import_gguf(const ModelImport& what, const BytesDone& progress = {});
// Its tensors, opened and named, as an import of them has them.
ForeignModel open_gguf(const std::filesystem::path& from);

}  // namespace mt
