#pragma once
// Matrix products: C = op(A)·op(B) (+ bias) (+ C), one or a batch.
//
//   m, n, k   rows of C, columns of C, length of the sum        op   as stored, or transposed
// A linear layer with weight W [out, in]:  y = gemm(x, W, trans_b)   dx = gemm(dy, W)   dW += gemm(dy, x, trans_a)
// Sums are in f32, rounded once to C's dtype. On the CPU the work is cut into tiles that depend on (m, n, k) alone, so
// the bits do not depend on the number of threads.
// Code: ops/gemm.cc, ops/cpu/gemm.cc. Tests: tests/ops/gemm_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

struct GemmArgs {
  View a;  // [m, k], or [k, m] with trans_a; f32, bf16 or f16
  View b;  // [k, n], or [n, k] with trans_b; same dtype as a
  View c;  // [m, n]; f32, or the dtype of a
  bool trans_a = false;
  bool trans_b = false;
  bool accumulate = false;  // add to C instead of overwriting it
  View bias;                // [n], f32 or the dtype of a; absent when without data. Not with accumulate
};

// needs  all views of two dims, or all of three with equal first dims (a batch); the last stride of each is 1; C does
//        not overlap A or B. A k of 0 gives zeros (or the bias, or C unchanged)
// cost   gemm_cost(batch, m, n, k)
void gemm(Stream& stream, const GemmArgs& args);

// flop = 2·batch·m·n·k; bytes = each operand read once, C written once (and read when accumulating).
Cost gemm_cost(const GemmArgs& args);

}  // namespace mt::ops
