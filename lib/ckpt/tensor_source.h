#pragma once
// Tensors that can be read box by box, whoever stores them: a checkpoint of ours, or another program's under our names.
//
// What compares and describes values takes one of these. Code: ckpt/tensor_source.cc. Tests: tests/ckpt/diff_test.cc,
// tests/ckpt/tensor_scan_test.cc, and of other programs' tests/foreign/foreign_tensors_test.cc.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ckpt/reader.h"

namespace mt {

class TensorSource {
 public:
  TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;
  virtual ~TensorSource() = default;

  // All there are, each with its whole box, in the order of the source.
  const std::vector<TensorBox>& tensors() const { return tensors_; }
  // One of them, or null.   cost  logarithmic
  const TensorBox* find(std::string_view name, std::string_view kind) const;

  // Elements of a box of one of them, row-major, as stored.
  //   needs  `tensor` is one of tensors(), `box` inside it   fails  Error{io}, Error{corrupt}: what is stored is damaged
  virtual void read(const TensorBox& tensor, const Box& box, std::byte* out) const = 0;

 protected:
  // To be called once, by the constructor.
  void set_tensors(std::vector<TensorBox> all);

 private:
  std::vector<TensorBox> tensors_;
  std::map<std::pair<std::string, std::string>, std::size_t> places_;
};

// A checkpoint of ours, borrowed. Hashes of what is read are compared, so damage is told as such.
class CheckpointTensors : public TensorSource {
 public:
  explicit CheckpointTensors(const Reader& reader);
  void read(const TensorBox& tensor, const Box& box, std::byte* out) const override;

 private:
  const Reader& reader_;
};

}  // namespace mt
