#pragma once
// Walk over the elements of a stored tensor in bounded memory, and what they are like.
//
// Code: ckpt/tensor_scan.cc. Tests: tests/ckpt/tensor_scan_test.cc.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ckpt/tensor_source.h"

namespace mt {

// One element of any dtype as a double.
double element_value(DType dtype, const std::byte* at);

// Visit the box of a tensor in row-major order, block after block: f(box of the block, its elements row-major).
//   needs  a tensor of the source, `part` inside it
//   fails  as TensorSource::read
//   cost   reads it once; a block is at most 32 MiB
void scan_tensor(const TensorSource& source, const TensorBox& tensor, const Box& part,
                 const std::function<void(const Box& block, const std::byte* elements)>& visit);

// Over finite elements: least, most, mean, standard deviation (of the population), root mean square; and counts.
struct TensorStats {
  std::int64_t elements = 0, zeros = 0, nan = 0, infinite = 0;
  double least = 0, most = 0, mean = 0, deviation = 0, rms = 0;
};
TensorStats stats_of(const TensorSource& source, const TensorBox& tensor);

}  // namespace mt
