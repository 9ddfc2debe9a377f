#pragma once
// One matrix product on the calling thread, by oneDNN.
//
// oneDNN here is an OpenMP build: it uses as many threads as the caller's OpenMP setting says, so each call sets that
// to 1 for this thread and puts it back. Primitives have run-time dimensions, one per (dtypes, transposes, accumulate,
// bias), made once a thread: a primitive may not run on two threads at once.
// Code: ops/cpu/onednn.cc. Tests: tests/ops/gemm_test.cc.

#include "ops/cpu/vector/vector.h"
#include "tensor/view.h"

namespace mt::ops::cpu {

// A matrix in memory; (i, j) are places in op(matrix), that is after a transposition.
struct Operand {
  void* data = nullptr;
  DType dtype = DType::f32;
  Count row = 0;  // stride of stored rows, in elements
  bool transposed = false;

  void* at(Count i, Count j) const {
    return static_cast<std::byte*>(data) + bytes_of(dtype, transposed ? j * row + i : i * row + j);
  }
  const float* as_f32(Count i) const { return static_cast<const float*>(at(i, 0)); }
  Operand from(Count i, Count j) const { return {at(i, j), dtype, row, transposed}; }
};

struct Product {
  Count m = 0, n = 0, k = 0;
  Operand a, b, c, bias;  // bias: [n], or no data
  bool accumulate = false;
};

// needs  f32, or bf16 where onednn_has_bf16(); c f32 or the dtype of a
void onednn_product(const Product& p);
// oneDNN uses bf16 dot-product instructions here (it obeys DNNL_MAX_CPU_ISA).
bool onednn_has_bf16();

}  // namespace mt::ops::cpu
