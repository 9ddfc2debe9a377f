#pragma once
// Checkpoints of torch.distributed.checkpoint, as Megatron's --ckpt-format torch_dist writes them: `.metadata`, a pickle that
// says where each chunk of each tensor lies, and `__R_N.distcp` files of them, each chunk a whole file of torch.save.
//
// Code: foreign/torch_dist.cc. Tests: tests/foreign/megatron_test.cc; fuzzed by tests/fuzz/torch_file_fuzz.cc.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/files.h"
#include "foreign/source_tensors.h"
#include "foreign/torch_file.h"
#include "layout/box.h"

namespace mt {

class TorchDist {
 public:
  // Bytes of a file of the directory.
  struct Place {
    std::string file;
    std::uint64_t begin = 0, end = 0;
  };
  struct Chunk {
    Box box;
    Place place;
  };
  struct Tensor {
    std::optional<DType> dtype;
    std::string dtype_text;
    Dims shape;
    std::vector<Chunk> chunks;
  };

  // Read `.metadata` and look at the files it names.
  //   fails  Error{io}; Error{corrupt}: a damaged pickle, chunks that leave their tensor, overlap or do not cover it, that
  //          lie nowhere, outside the directory or outside their file; a transformation of the bytes
  //   cost   the metadata
  explicit TorchDist(const std::filesystem::path& dir);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  // Objects that are no tensors, by name: each is a file of torch.save or a pickle.
  const std::map<std::string, Place>& objects() const { return objects_; }
  // Look at an object.   fails  Error{corrupt}: a damaged one
  void with_object(const std::string& name, const std::function<void(const PickleValue& root)>& look) const;

  // One that is a file of torch.save, which is in bytes that live as long as this.   fails  as TorchFile
  TorchFile object(const std::string& name) const;

  // Elements of a box, row-major.
  //   fails  Error{corrupt}: a chunk that is damaged, or is another tensor than the metadata says
  void read(const std::string& name, const Box& box, std::byte* out) const;

  // Tensors for a conversion; they borrow this.
  SourceTensors sources() const;

 private:
  struct Open {
    std::unique_ptr<TorchFile> file;
    TorchTensor tensor;
  };
  std::span<const std::byte> bytes_of_place(const Place& place) const;
  const Open& open(const Tensor& tensor, const Chunk& chunk) const;

  std::filesystem::path dir_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, Place> objects_;
  mutable std::map<std::string, MappedFile> files_;
  mutable std::map<const Chunk*, Open> open_;  // a few, the last ones
};

}  // namespace mt
