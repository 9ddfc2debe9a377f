#pragma once
// The tensors that an argument names, to be looked at: of a checkpoint of ours, or of another program's under our names.
//
// Code: opened.cc. Tests: tests/cli/foreign_models.sh.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "ckpt/tensor_source.h"
#include "foreign/source_tensors.h"

namespace mt {

//   dir     where it lies, for messages
//   format  as foreign_format() says it; "" of ours
struct Opened {
  std::filesystem::path dir;
  std::string format;
  std::unique_ptr<Reader> reader;
  std::unique_ptr<ForeignModel> model;
  std::unique_ptr<TensorSource> tensors;
};

// Recognise and open. What is not ours is counted as a conversion counts it, and said.
//   fails  as resolve(), and as the imports of formats
//   cost   of ours a manifest; of another program's that of ForeignTensors
//   weights_only  of Megatron's nothing else is opened
Opened open_tensors(const std::string& path, std::optional<std::int64_t> iteration, bool weights_only);

}  // namespace mt
