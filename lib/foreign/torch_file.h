#pragma once
// Files of torch.save: a pickle of what was saved, whose tensors are views of storages beside it.
//
// Two forms are read: the zip archive of PyTorch 1.6 and later (data.pkl, data/0, data/1 ..., byteorder), and the older one
// of five pickles with the storages behind them. Nothing of the pickle is executed (foreign/pickle.h). A tensor is found in the
// graph by its call of torch._utils._rebuild_tensor_v2 (or _v3, or _rebuild_parameter or
// torch._tensor._rebuild_from_type_v2, of a Parameter or Tensor, around one); views may share a storage,
// lie apart from each other in it or be transposed. Storages are little-endian, and read where they are mapped.
// Code: foreign/torch_file.cc, foreign/torch_tensor.cc. Tests: tests/foreign/torch_file_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/files.h"
#include "foreign/pickle.h"
#include "layout/box.h"

namespace mt {

// A view of a storage.
//   dtype_text  torch's word, "bfloat16"; dtype is ours, where there is one
//   offset, strides  in elements
struct TorchTensor {
  std::string dtype_text;
  std::optional<DType> dtype;
  std::size_t element_bytes = 0;
  Dims shape, strides;
  std::int64_t offset = 0;
  std::string storage;

  bool same_elements_as(const TorchTensor& other) const {
    return storage == other.storage && offset == other.offset && strides == other.strides && shape == other.shape && dtype_text == other.dtype_text;
  }
};

class TorchFile {
 public:
  // Map and open a file.
  //   fails  Error{io}; Error{corrupt}: no such file, with what it is instead where that can be seen (a pointer of Git
  //          LFS, safetensors, an archive of something else); a damaged archive or pickle; big-endian storages
  //   cost   the pickle
  explicit TorchFile(const std::filesystem::path& path);
  // The same in bytes that are mapped already and stay.
  TorchFile(std::span<const std::byte> bytes, const std::string& where);

  // What was saved.
  PickleValue root() const { return pickle_.root(); }
  const std::string& where() const { return where_; }

  // The tensor that a value is, or nothing when it is something else.
  //   fails  Error{corrupt}: a tensor of a kind that is not read (with its name), whose storage is not there or has another
  //          size than it says, or with elements outside of it
  std::optional<TorchTensor> tensor(const PickleValue& value) const;

  // Elements of a box, row-major.
  //   needs  a tensor of this file, `box` inside it
  //   fails  Error{corrupt}: the archive's checksum of the storage is another; it is compared at the first touch
  void read(const TorchTensor& t, const Box& box, std::byte* out) const;

 private:
  struct Storage {
    std::uint64_t begin = 0, end = 0;
    std::uint32_t crc = 0;
    mutable bool checked = false;
  };
  void open();
  void open_zip();
  void open_old();

  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string where_;
  Pickle pickle_;
  std::map<std::string, Storage> storages_;
};

// The storage that a persistent reference means, into `t`: key, type and bytes of an element.
//   gives  bytes it says it has   fails  Error{corrupt}: something else, a type that is not read
std::uint64_t describe_storage(const PickleValue& value, TorchTensor& t);

// Tensors of nested dicts by their keys, joined with points, in the order they lie there.
struct NamedTorchTensor {
  std::string name;
  TorchTensor tensor;
  std::uint64_t at = 0;  // byte of the pickle
};
struct TorchTensors {
  std::vector<NamedTorchTensor> tensors;
  std::vector<std::string> others;  // names of what is no tensor and no dict
};
//   fails  Error{corrupt}: `value` is no dict, a key is no text, a name is there twice, dicts nest deeper than 16; as tensor()
TorchTensors tensors_of(const TorchFile& file, const PickleValue& value);

}  // namespace mt
