#pragma once
// Tensors of another program, wherever its files have them, and a checkpoint of ours made of them by a table of boxes.
//
// Counted both ways: every source tensor is in the table or of no weight, every tensor of ours is made exactly once, or
// nothing is written.
// Code: foreign/source_tensors.cc. Tests: tests/foreign/megatron_test.cc, tests/foreign/meta_files_test.cc,
// tests/foreign/hf_convert_test.cc.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "foreign/tensor_map.h"
#include "layout/model_spec.h"

namespace mt {

// A model of another program that is to become a checkpoint.
struct ModelImport {
  std::filesystem::path from;  // its directory, or its file
  std::filesystem::path root;  // a --save directory
  std::int64_t iteration = 0;
  std::string version;         // of the program, for the manifest
};

// One of them.
//   where  its file, for messages
//   read   elements of a box, row-major
struct SourceTensor {
  std::optional<DType> dtype;
  std::string dtype_text, where;
  Dims shape;
  std::function<void(const Box& box, std::byte* out)> read;
};
using SourceTensors = std::map<std::string, SourceTensor>;

// Tensors that are the same as others: copies on other ranks, heads tied to a table. They are used when they are equal.
struct TensorCopy {
  std::string name, of;
  Box box, of_box;  // what of each; the rest of `name` is padding
};

// What is kept beside weights, for every one of ours: a kind ("master", "exp_avg") and where it lies.
//   rounds  it is f32, and to be used only where each tensor rounds to its weight: that proves that files hold for each
//           parameter what is its own
//   kept    false: it is compared so and left out
struct StateMap {
  std::string kind;
  std::vector<MappedTensor> map;
  bool rounds = false, kept = true;
};

// What becomes a checkpoint.
//   consumed_samples, iteration, training  as in CheckpointMeta
//   specs  what is kept beside model, layout and dtype, under keys of their own
struct NativeImport {
  std::filesystem::path root;  // a --save directory
  std::string version;         // of the program
  std::string from;            // for messages
  std::string said_by = "model";  // what says the shapes, for messages
  ModelSpec model;
  std::vector<MappedTensor> map;
  std::vector<TensorCopy> copies;
  std::vector<StateMap> states = {};
  std::int64_t iteration = 0, consumed_samples = 0;
  Json specs = Json::object();
  Json training = Json::object();
};

// A model of another program, open.
//   files        what `tensors` reads from
//   num_tensors  theirs that are weights, as they are counted for people
struct ForeignModel {
  std::shared_ptr<const void> files;
  SourceTensors tensors;
  NativeImport what;
  std::size_t num_tensors = 0;
  std::vector<std::string> notices;
};

struct Converted {
  std::filesystem::path path;
  std::size_t tensors = 0;  // theirs
  std::uint64_t bytes = 0;  // of ours
  std::vector<std::string> notices;
};

// Elements of a box of a weight of ours, row-major, as stored.
//   needs  the weight is there   fails  as Reader::read
void read_weight(const Reader& reader, const std::string& name, const Box& box, std::byte* out);

// The way out where what an optimizer keeps cannot be taken.
inline constexpr const char* kWithoutState = "--weights-only converts without what the optimizer keeps";

// Write it. Weights keep their bits and dtypes.
//   fails  Error{config}: tensors missing, left over, of another shape or of no floating type, copies that differ, all
//          named, and nothing is left; Error{io}; what `read` throws
//   cost   every byte is read once and written once; copies, and weights with the master weights that must round to them,
//          once more; 64 MiB
Converted import_tensors(const SourceTensors& sources, const NativeImport& what, const BytesDone& progress = {});
// The same of an open one.
Converted import_model(ForeignModel model, const ModelImport& what, const BytesDone& progress = {});

// Another program's files do not go where ours are: a directory is of one format.
//   fails  Error{config}: `dir` is a checkpoint of ours or holds some
void require_none_of_ours(const std::filesystem::path& dir);

// The first four sentences and how many more there are, as Error{config}.
[[noreturn]] void refuse_all(const std::vector<std::string>& problems, const std::string& where, const std::string& hint = "");

}  // namespace mt
