#pragma once
// Operands of a product rounded as fp8 hardware rounds them, kept in the dtype they came in.
//
//   out = round_fp8(x·s) / s        s a power of two, so that out is exact in bf16 and a bf16 product of two such
//                                   operands is the fp8 product: exact terms, summed in f32
//   s   of a whole tensor from a largest magnitude that is given, or of each block from its own
// Values beyond the format's largest saturate; NaN stays. Source: Micikevicius et al., arXiv:2209.05433.
// Code: ops/fp8.cc, ops/cpu/fp8.cc, ops/cpu/fp8_gemm.cc, ops/cuda/fp8_gemm.cu. Tests: tests/ops/fp8_test.cc,
// fp8_gemm_test.cc.

#include <string>

#include "device/stream.h"
#include "ops/cost.h"
#include "ops/gemm.h"
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

struct AmaxHistoryArgs {
  View history;  // f32 [H, n], the newest first; below zero: nothing yet
  View seen;     // f32 [n], the magnitudes of a step; zeros afterwards
  View used;     // f32 [n], written: what the next step's scales come from
  bool most_recent = true;  // the newest, else the largest
};
// Place by place: a finite magnitude enters the history and pushes the oldest out, then the next one is chosen; 0 where there
// is none.   cost  2·H·n elements moved
void amax_history(Stream& stream, const AmaxHistoryArgs& args);

// One place of it; its history's elements lie `step` apart.
MT_HD inline void next_amax(float* history, std::int64_t length, std::int64_t step, float* seen, float* used,
                            bool most_recent) {
  const float now = *seen;
  *seen = 0;
  if (now - now == 0) {  // finite
    for (std::int64_t h = length - 1; h > 0; --h) history[h * step] = history[(h - 1) * step];
    history[0] = now;
  }
  float most = history[0] < 0 ? 0 : history[0];
  for (std::int64_t h = 1; h < length && !most_recent; ++h) most = history[h * step] > most ? history[h * step] : most;
  *used = most;
}

struct Fp8GemmArgs {
  Fp8RoundArgs a;  // a.x [m, k], or [k, m] with trans_a; a.out is memory for a copy, what is in it later is undefined
  Fp8RoundArgs b;  // b.x [k, n], or [n, k] with trans_b
  View c, bias;    // of GemmArgs, as are the rest
  bool trans_a = false, trans_b = false, accumulate = false;
  GemmMode mode = {};
};
// C = round(op(A))·round(op(B)) (+ bias) (+ C): the product of operands as fp8_round gives them.
//
// Where the device multiplies fp8, both copies are fp8 (laid out along the sum) with their scales beside them, in half the
// memory, and the product is cuBLASLt's. The terms are then the same, exactly; the sum is the tensor cores', which keep
// less than f32 between their steps. Nothing is read by the host. That is so on CUDA for
//   a scale a tensor  compute capability 8.9 and above: both operands by an amax, not both e5m2
//   blocks            compute capability 9.x: 128 along the sum or 128x128, not both 128x128; m and n multiples of 4
// and a k of a multiple of 16 and rows of c on borders of 16 bytes. Elsewhere, and on a CPU, the copies are rounded in
// their own dtype and multiplied by gemm.
//   needs  as gemm and fp8_round, in two dims; copies on borders of 16 bytes   cost  fp8_gemm_cost
void fp8_gemm(Stream& stream, const Fp8GemmArgs& args);
// The product of both copies, once they are rounded in their own dtype.
inline GemmArgs gemm_of_copies(const Fp8GemmArgs& g) {
  return {.a = g.a.out,
          .b = g.b.out,
          .c = g.c,
          .trans_a = g.trans_a,
          .trans_b = g.trans_b,
          .accumulate = g.accumulate,
          .bias = g.bias,
          .mode = g.mode};
}
Cost fp8_gemm_cost(const Fp8GemmArgs& args);

// Which of the two it is on this device where shapes fit, as words for people: "fp8", "bf16, of operands rounded to fp8".
std::string fp8_products(Device device, bool blocks);

}  // namespace mt::ops
