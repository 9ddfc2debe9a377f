#pragma once
// The files of a Hugging Face model directory: safetensors or, to be read, files of torch.save (*.bin), one or several with an
// index, and a config.json.
//
// Code: foreign/hf_files.cc. Tests: tests/foreign/hf_files_test.cc.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "ckpt/safetensors.h"
#include "foreign/torch_file.h"

namespace mt {

// Weights of a directory, by name.
class HfWeights {
 public:
  // Open model.safetensors.index.json and the files it names, else model.safetensors; without both the same of
  // pytorch_model.bin.
  //   fails  Error{io} unreadable; Error{config} no weights there; Error{corrupt}: a damaged header or pickle, an index that
  //          names a file outside the directory or one without the tensor, a tensor twice
  //   cost   headers and pickles; data is mapped
  explicit HfWeights(const std::filesystem::path& dir);

  //   entry  of a .bin its dtype_text is torch's word, and begin and end say no more than how many bytes it has
  struct Tensor {
    SafetensorsEntry entry;
    std::size_t file = 0;
    std::optional<TorchTensor> torch = {};
  };
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  // The path that holds a tensor, for messages.
  const std::filesystem::path& path_of(const Tensor& t) const { return paths_[t.file]; }

  // Elements of a box, row-major.   needs  a tensor that is there and has a DType, `box` inside it
  void read(const std::string& name, const Box& box, std::byte* out) const;

 private:
  using Index = std::map<std::string, std::string>;
  struct File {
    MappedFile mapped;  // of safetensors
    std::uint64_t data_start = 0;
    std::unique_ptr<TorchFile> torch;  // of *.bin
  };
  void add_all(const std::filesystem::path& dir, const char* index_name);
  void add_file(const std::filesystem::path& path, const Index* index);
  void add_tensor(Tensor tensor, const Index* index);
  std::vector<std::filesystem::path> paths_;
  std::vector<File> files_;
  std::map<std::string, Tensor> tensors_;
};

// What is written of a model.
struct HfTensor {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(bytes_of(dtype, num_elements(shape))); }
};

struct HfOutput {
  std::filesystem::path dir;
  std::uint64_t max_shard_bytes = 5'000'000'000;  // a file has at most so many, or one tensor
  bool force = false;                             // files that are there may be replaced
};

// Write model.safetensors, or model-00001-of-0000N.safetensors and their index, then config.json, the last, which makes
// the directory a model. Files appear under their names when all are whole; a model that they replace stays until then, so both are
// on the disk for a while.
//   fill   bytes [begin, end) of tensors[i], in ascending order
//   gives  names of the files of weights
//   fails  Error{config}: a file is there already (without force); Error{io}
//   cost   every byte is made and written once; 16 MiB
std::vector<std::string> write_hf(const HfOutput& output, std::span<const HfTensor> tensors, const Json& config,
                                  const std::function<void(std::size_t i, std::uint64_t begin, std::uint64_t end,
                                                           std::byte* out)>& fill);

}  // namespace mt
