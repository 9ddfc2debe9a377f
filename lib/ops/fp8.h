#pragma once
// Operands of a product rounded as fp8 hardware rounds them, kept in the dtype they came in.
//
//   out = round_fp8(x·s) / s        s a power of two, so that out is exact in bf16 and a bf16 product of two such
//                                   operands is the fp8 product: exact terms, summed in f32
//   s   of a whole tensor from a largest magnitude that is given, or of each block from its own
// Values beyond the format's largest saturate; NaN stays. Source: Micikevicius et al., arXiv:2209.05433.
// Code: ops/fp8.cc, ops/cpu/fp8.cc. Tests: tests/ops/fp8_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

// The largest power of two s with amax·s ≤ largest finite value of the format (e4m3 448, e5m2 57344), divided by
// 2^margin; between 2^-100 and 2^100; 1 when amax is 0 or not finite.
float fp8_scale(float amax, DType format, int margin);

struct AbsMaxArgs {
  View x;    // [R, C], last stride 1; any float
  View out;  // f32 [1]
};
// out = max(out, max|x|); NaN wins.   cost  R·C elements moved
void abs_max(Stream& stream, const AbsMaxArgs& args);

struct Fp8RoundArgs {
  View x;    // [R, C], last stride 1; bf16 or f32
  View out;  // [R, C] contiguous, of x's dtype
  DType format = DType::e4m3;
  View amax;  // f32 [1], read when the work runs: one scale for the tensor. Absent: a scale a block.
  int margin = 0;
  std::int64_t block_rows = 1, block_columns = 128;  // the last ones of a row or column may be smaller
};
// cost  2·R·C elements moved
void fp8_round(Stream& stream, const Fp8RoundArgs& args);

Cost fp8_round_cost(std::int64_t rows, std::int64_t columns, int bytes_per_element);

}  // namespace mt::ops
