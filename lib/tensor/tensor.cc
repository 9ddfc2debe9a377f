#include "tensor/tensor.h"

namespace mt {

Tensor::Tensor(Device device, DType dtype, Shape shape, Memory memory)
    : buffer_(device, static_cast<std::size_t>(bytes_of(dtype, shape.size())), memory), view_(buffer_.data(), dtype, shape) {}

View allocate(Arena& arena, DType dtype, Shape shape) {
  return View(arena.allocate(static_cast<std::size_t>(bytes_of(dtype, shape.size()))), dtype, shape);
}

}  // namespace mt
