#pragma once
// A product with GELU (the tanh form) at its end, and its derivative at the end of the product that comes back.
//
//   forward   aux = A·B (+ bias)     C = gelu(A·B (+ bias))     backward   C = (A·B)·gelu'(aux)
// On CUDA it is one kernel, cuBLASLt's: the sum never goes through memory, and C comes of it before aux is rounded. Its GELU
// has other bits than ours (ops/scalar.h), so of what is saved nothing but whole products may be made again: not C from aux.
// Elsewhere, and for shapes the library does not take, it is gemm and our activation, C coming of the rounded aux.
// Code: ops/gemm_gelu.cc, ops/cpu/gemm_gelu.cc, ops/cuda/gemm_gelu.cu. Tests: tests/ops/gemm_gelu_test.cc.

#include "ops/gemm.h"

namespace mt::ops {

struct GemmGeluArgs {
  GemmArgs product;      // c of a's dtype; does not accumulate; backward: no bias
  View aux;              // [m, n], of c's dtype: written forward, read backward
  bool backward = false;
};
//   needs  as gemm, in two dims; c and aux apart   cost  gemm_gelu_cost
void gemm_gelu(Stream& stream, const GemmGeluArgs& args);
Cost gemm_gelu_cost(const GemmGeluArgs& args);

}  // namespace mt::ops
