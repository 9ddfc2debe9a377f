#pragma once
// Operands of a product rounded as fp8 hardware rounds them, kept in the dtype they came in.
//
//   out = round_fp8(x·s) / s        s a power of two, so that out is exact in bf16 and a bf16 product of two such
//                                   operands is the fp8 product: exact terms, summed in f32
//   s   of a whole tensor from a largest magnitude that is given, or of each block from its own
// Values beyond the format's largest saturate; NaN stays. Source: Micikevicius et al., arXiv:2209.05433.
// Code: ops/fp8.cc, ops/cpu/fp8.cc, ops/cpu/fp8_gemm.cc, ops/cuda/fp8_gemm.cu. Tests: tests/ops/fp8_test.cc,
// fp8_gemm_test.cc.

#include <array>
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

// ---- products ----------------------------------------------------------------------------------------------------------

// What shares a scale: a matrix, 128 elements of the sum, or 128x128.
enum class Fp8Scaling : std::uint8_t { tensor, lines, squares };
// What a copy is made of: numbers of x's dtype that lie as x's do; or fp8 that lies along the sum, its scales behind it.
enum class Fp8Form : std::uint8_t { rounded, bytes };

// A matrix as products take it: rounded once, for as many of them as there are.
struct Fp8Matrix {
  std::int64_t rows = 0, columns = 0;  // of x
  DType dtype = DType::bf16;           // of x: bf16 or f32
  DType format = DType::e4m3;
  Fp8Scaling scaling = Fp8Scaling::tensor;
  struct Copy {
    View memory;  // absent: there is none. At least fp8_copy_bytes, on a border of 16 bytes
    Fp8Form form = Fp8Form::rounded;
  };
  Copy along, down;  // for sums along its rows, and down its columns

  const Copy& copy(bool along_rows) const { return along_rows ? along : down; }
  std::int64_t outer(bool along_rows) const { return along_rows ? rows : columns; }
  std::int64_t inner(bool along_rows) const { return along_rows ? columns : rows; }
};
// A copy in bytes of 8 bits is never more than one in x's dtype, where the sum is of 16 elements or more.
std::int64_t fp8_copy_bytes(const Fp8Matrix& m, Fp8Form form, bool along_rows);

struct Fp8QuantizeArgs {
  View x;        // [rows, columns], last stride 1
  Fp8Matrix to;  // copies with memory are made. Both may lie in the same memory where both are rounded and without lines
  View amax;     // f32 [1], with Fp8Scaling::tensor
  int margin = 0;
  View seen;  // f32 [1]: becomes max(seen, max|x|), as by abs_max. Absent: is not asked for
};
// The numbers of a copy are those of fp8_round.
//   cost  x read once for all copies of bytes and `seen`; once more for each that is rounded
void fp8_quantize(Stream& stream, const Fp8QuantizeArgs& args);

struct Fp8GemmArgs {
  Fp8Matrix a;   // [m, k], or [k, m] with trans_a
  Fp8Matrix b;   // [k, n], or [n, k] with trans_b
  View c, bias;  // of GemmArgs, as are the rest
  bool trans_a = false, trans_b = false, accumulate = false;
  GemmMode mode = {};
};

// The form both copies of a product must have on the stream's device: bytes where it multiplies fp8. Those lie in half the
// memory, and the product is cuBLASLt's. Its terms are the same, exactly; its sum is the tensor cores', which keep less than
// f32 between their steps. So it is on CUDA for
//   a scale a tensor  compute capability 8.9 and above, not both e5m2
//   lines, squares    compute capability 9.x, not both squares; m and n multiples of 4
// and a k of a multiple of 16 and rows of c on borders of 16 bytes.
//   needs  as fp8_gemm; of memory the borders alone count, so that it may stand for other memory. Nothing is launched
//   cost   the first time, the library's search
Fp8Form fp8_form(Stream& stream, const Fp8GemmArgs& args);

// C = op(A)·op(B) (+ bias) (+ C) of what fp8_quantize made of A and B. Of rounded copies it is gemm.
//   needs  as gemm, in two dims; the copies along the sum, in the form of fp8_form, or both rounded   cost  fp8_gemm_cost
void fp8_gemm(Stream& stream, const Fp8GemmArgs& args);
// The product of rounded copies.
GemmArgs gemm_of_copies(const Fp8GemmArgs& g);
Cost fp8_gemm_cost(const Fp8GemmArgs& args);

// What of a quantization is fp8_round's: its rounded copies, once where both lie in the same memory; others without `out`.
std::array<Fp8RoundArgs, 2> rounded_copies(const Fp8QuantizeArgs& args);

// A kernel of no launch: where the answer of fp8_form goes.
struct Fp8FormArgs {
  const Fp8GemmArgs& product;
  Fp8Form& form;
};

// Which form it is on this device where shapes fit, as words for people: "fp8", "bf16, of operands rounded to fp8".
std::string fp8_products(Device device, bool blocks);

}  // namespace mt::ops
