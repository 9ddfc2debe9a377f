#pragma once
// Loops on rows of f32, compiled once per instruction class and chosen at run time.
//
// The files of this folder are built for x86-64-v2, -v3 (AVX2) and -v4 (AVX-512) from the same sources, each inside its
// own namespace (MT_ISA), and each fills one table. They never include <vector>, <string> or anything else that would
// leave a weak symbol: the linker could then hand AVX-512 code to an older processor (tests/ops/vector_symbols.sh).
// Lengths are elements, any value ≥ 0; pointers need no alignment unless said. Element-wise loops give the same bits in
// every class. Reductions are 16 interleaved sums joined in a fixed tree. A null optional row (bias, residual) is
// zeros. Code: this folder. Tests: tests/ops/vector_test.cc.

#include <cstdint>

#include "base/philox.h"

namespace mt::ops::cpu {

using Count = std::int64_t;
inline constexpr int kActivations = 5;  // in the order of enum Activation

// One row of hidden dropout: counter ((first + i)/4, c1, c2, c3), word (first + i)%4.
struct DropoutRow {
  PhiloxKey key;
  std::uint32_t c1, c2, c3;
  Count first;
  std::uint32_t threshold;
  float keep_scale;
};

struct AdamwStep {
  float lr, grad_scale, c1, c2, beta1, beta2, epsilon, weight_decay;
};

// C[m, n] = A·B (+ C), f32, n a multiple of 16, C and B row-major; A(i, k) = a[i·row + k·column].
struct BlockProduct {
  Count m, n, k;
  const float* a;
  Count a_row, a_column;
  const float* b;
  Count b_row;
  float* c;
  Count c_row;
  bool accumulate;
};

struct Vector {
  void (*bf16_to_f32)(const void* x, float* out, Count n);
  void (*f16_to_f32)(const void* x, float* out, Count n);
  void (*f32_to_bf16)(const float* x, void* out, Count n);
  void (*f32_to_f16)(const float* x, void* out, Count n);

  void (*add)(const float* a, const float* b, float* out, Count n);
  void (*scale)(const float* x, float factor, float* out, Count n);
  float (*max)(const float* x, Count n);  // −infinity when n = 0; NaN when one is there

  // Norms (ops/rms_norm.h, ops/layer_norm.h). out, dx may be x, dout.
  float (*rms_forward)(const float* x, const float* weight, float shift, float epsilon, float* out, Count n);
  void (*rms_backward)(const float* dout, const float* x, const float* weight, float shift, float rstd,
                       const float* dresidual, float* dx, Count n);
  void (*rms_columns)(const float* dout, const float* x, float rstd, float* dweight, Count n);
  void (*layer_forward)(const float* x, const float* weight, const float* bias, float shift, float epsilon, float* out,
                        Count n, float* mean_rstd);
  void (*layer_backward)(const float* dout, const float* x, const float* weight, float shift, const float* mean_rstd,
                         const float* dresidual, float* dx, Count n);
  void (*layer_columns)(const float* dout, const float* x, const float* mean_rstd, float* dweight, float* dbias,
                        Count n);

  void (*activation[kActivations])(const float* x, const float* bias, float* out, Count n);
  void (*activation_backward[kActivations])(const float* x, const float* bias, const float* dout, float* dx, Count n);
  void (*gated[kActivations])(const float* gate, const float* up, const float* gate_bias, const float* up_bias,
                              float* out, Count n);
  void (*gated_backward[kActivations])(const float* gate, const float* up, const float* gate_bias, const float* up_bias,
                                       const float* dout, float* dgate, float* dup, Count n);

  void (*bias_add)(const float* x, const float* bias, const float* residual, float* out, Count n);
  void (*bias_dropout_add)(const float* x, const float* bias, const float* residual, const DropoutRow& row, float* out,
                           Count n);

  // Turn pairs by (cos, sign·sin): (i, i + half) or (2i, 2i + 1), i < half.
  void (*rotate_half)(float* x, const float* cosine, const float* sine, float sign, Count half);
  void (*rotate_interleaved)(float* x, const float* cosine, const float* sine, float sign, Count half);

  // Cross-entropy (ops/cross_entropy.h), one block of columns. sums: Σ exp(x − max), Σ (x − max).
  void (*exp_sums)(const float* x, float max, Count n, float* sums);
  void (*softmax_gradient)(const float* x, float max, float factor, float subtract, float* out, Count n);

  void (*adamw)(float* master, float* exp_avg, float* exp_avg_sq, const float* grad, const AdamwStep& step, Count n);
  // Adds squares to digits (ops/sum_squares.h); n ≤ kSquaresBlock. Returns the number of non-finite elements.
  Count (*add_squares)(const float* x, Count n, std::int64_t* digits);

  void (*block_product)(const BlockProduct& p);
  // x[i] = exp(x[i] − max) and the sum of them.
  float (*exp_row)(float* x, float max, Count n);
  // ds[i] = p[i]·(dp[i] − delta)·scale
  void (*softmax_backward)(const float* p, const float* dp, float delta, float scale, float* ds, Count n);
  // x[i] = x[i]·keep_scale or 0 by the attention counter (first + i)/4, c1, c2, c3; row.first is the first key.
  void (*dropout)(float* x, const DropoutRow& row, Count n);
  // out[j·out_row + i] = x[i·x_row + j], i < rows, j < columns
  void (*transpose)(const float* x, Count x_row, Count rows, Count columns, float* out, Count out_row);
  float (*dot)(const float* a, const float* b, Count n);
};

inline constexpr Count kSquaresBlock = 32768;

// The table for cpu_isa(); below AVX2 the portable one.
const Vector& vector();

namespace generic {
extern const Vector kVector;
}
namespace avx2 {
extern const Vector kVector;
}
namespace avx512 {
extern const Vector kVector;
}

}  // namespace mt::ops::cpu
