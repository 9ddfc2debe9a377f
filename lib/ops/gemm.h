#pragma once
// Matrix products: C = op(A)·op(B) (+ bias) (+ C), one or a batch.
//
//   m, n, k   rows of C, columns of C, length of the sum        op   as stored, or transposed
// A linear layer with weight W [out, in]:  y = gemm(x, W, trans_b)   dx = gemm(dy, W)   dW += gemm(dy, x, trans_a)
// Sums are in f32, rounded once to C's dtype. On the CPU the work is cut into tiles that depend on (m, n, k) alone, so
// the bits do not depend on the number of threads.
// A bias is fused; a GELU is where it may be, in ops/gemm_gelu.h: the library's has other bits than ours (ops/scalar.h), and one
// that is made again from what was saved must be the one that was. The gradient of a bias is not: the library would write it,
// where ours is added up over micro-batches.
// Code: ops/gemm.cc, ops/cpu/gemm.cc, ops/cuda/gemm.cu over ops/cuda/matmul.h. Tests: tests/ops/gemm_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

// How CUDA multiplies; on a CPU nothing depends on it.
struct GemmMode {
  bool tf32 = false;   // f32 operands are rounded to tf32 (ten bits of mantissa); else f32 products are exact f32
  int candidates = 1;  // of cuBLASLt's algorithms for a shape, how many are timed when it first comes; the fastest is kept
};

struct GemmArgs {
  View a;  // [m, k], or [k, m] with trans_a; f32, bf16 or f16
  View b;  // [k, n], or [n, k] with trans_b; same dtype as a
  View c;  // [m, n]; f32, or the dtype of a
  bool trans_a = false;
  bool trans_b = false;
  bool accumulate = false;  // add to C instead of overwriting it
  View bias;                // [n], f32 or the dtype of a; absent when without data. Not with accumulate
  GemmMode mode = {};
};

// needs  all views of two dims, or all of three with equal first dims (a batch); the last stride of each is 1; C does
//        not overlap A or B. A k of 0 gives zeros (or the bias, or C unchanged)
// cost   gemm_cost(batch, m, n, k)
void gemm(Stream& stream, const GemmArgs& args);

// flop = 2·batch·m·n·k; bytes = each operand read once, C written once (and read when accumulating).
Cost gemm_cost(const GemmArgs& args);

}  // namespace mt::ops
