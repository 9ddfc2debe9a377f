#pragma once
// GGUF files, of versions 2 and 3: what they say of a model, and their tensors of types F32, F16, BF16 and Q8_0.
//
// Q8_0 is blocks of 32 whole numbers of 8 bits and one f16 scale; it is given as f32, in which every product is exact.
// Code: foreign/gguf_file.cc. Tests: tests/foreign/gguf_test.cc; fuzzed by tests/fuzz/gguf_fuzz.cc.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/files.h"
#include "base/json.h"
#include "layout/box.h"

namespace mt {

class GgufFile {
 public:
  //   type   the format's number; dtype is what read() gives, nothing for a type that is not read
  //   shape  the slowest dimension first, the reverse of the file's
  struct Tensor {
    std::uint32_t type = 0;
    std::string type_text;
    std::optional<DType> dtype;
    Dims shape;
    std::uint64_t begin = 0, end = 0;  // bytes of the file
  };

  // Map and open a file.
  //   fails  Error{io}; Error{corrupt} "..., byte N": another format or version, cut, a name twice, tensors that leave the
  //          file or overlap, sizes that no file of this length has
  //   cost   the head
  explicit GgufFile(const std::filesystem::path& path);
  GgufFile(std::span<const std::byte> bytes, const std::string& where);

  // Keys and values; of an array of more than 64 its length alone.
  const Json& values() const { return values_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::string& where() const { return where_; }

  // Elements of a box, row-major.   needs  a tensor with a dtype, `box` inside it
  void read(const std::string& name, const Box& box, std::byte* out) const;

 private:
  void open();
  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string where_;
  Json values_ = Json::object();
  std::map<std::string, Tensor> tensors_;
};

}  // namespace mt
