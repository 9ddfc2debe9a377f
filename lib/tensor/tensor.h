#pragma once
// Owned numbers on a device, move only; and views carved from an arena.
//
// Code: tensor/tensor.cc. Tests: tests/tensor/view_test.cc.

#include "device/buffer.h"
#include "tensor/view.h"

namespace mt {

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled.   fails  Error{device}
  Tensor(Device device, DType dtype, Shape shape, Memory memory = Memory::device);
  View view() const { return view_; }
  operator View() const { return view_; }  // NOLINT: a tensor lends itself
  std::size_t bytes() const { return buffer_.size(); }

 private:
  Buffer buffer_;
  View view_;
};

// A contiguous view of fresh arena memory; content undefined.
View allocate(Arena& arena, DType dtype, Shape shape);

}  // namespace mt
