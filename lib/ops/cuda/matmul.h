#pragma once
// A product as cuBLASLt is asked for it, of row-major matrices: C = op(A)·op(B), scaled, with what is added to it.
//
// The library thinks in columns: Cᵀ = Bᵀ·Aᵀ, so the operands change places and nothing is copied. What it chose for a
// shape is kept, by device, for as long as the process lives.
// Code: ops/cuda/matmul.cu. Tests: tests/ops/gemm_test.cc, fp8_gemm_test.cc on a device; what the library is asked for is
// checked by its stand-in, tests/cuda_emulation/cublasLt.cc.

#include "ops/cuda/elements.h"
#include "ops/gemm.h"

namespace mt::ops::cuda {

// What the numbers of an operand are multiplied with.
enum class Scaling : std::uint8_t {
  none,
  tensor,  // one f32
  along,   // an f32 for 128 elements of the sum; that of (row, block) at scale[block·rows + row]
  square,  // an f32 for 128x128 elements; that of (block row, block) at scale[block row·(blocks, up to a multiple of 4) + block]
};

// Rows of ours are columns of the library's.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::f32;
  Count inner = 0, outer = 0, row = 0, batch_stride = 0;  // elements of a row, rows, elements between rows, between items
  Scaling scaling = Scaling::none;
  const float* scale = nullptr;  // device memory

  Matrix() = default;
  explicit Matrix(const View& v);
};

// What becomes of the sum; of both GELUs `aux` is the matrix that the function is of (ops/gemm_gelu.h).
enum class Epilogue : std::uint8_t { none, gelu, gelu_backward };

struct MatmulArgs {
  Matrix a, b;  // [m, k] or, transposed, [k, m]; [k, n] or [n, k]. Of fp8: a as it is, b transposed
  View c;       // [m, n], written or added to
  View bias;    // [n] or absent
  bool trans_a = false, trans_b = false, accumulate = false;
  GemmMode mode = {};
  Epilogue epilogue = Epilogue::none;
  View aux;  // of c's dtype, rows on borders of 8 elements; then the bias is of c's dtype, too
};

// Whether the library has a way for such a product on the stream's device.   cost  the first time, the library's search
bool can_matmul(const Stream& stream, const MatmulArgs& args);
//   fails  Error{device} where it has none
void matmul(const Stream& stream, const MatmulArgs& args);

// out = x + bias over c's rows, either absent.
void add_bias(const Stream& stream, const View& x, const View& bias, const View& c);

}  // namespace mt::ops::cuda
