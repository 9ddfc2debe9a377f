#pragma once
// RMSNorm over the last dimension:  y = x · rstd · (w + s),  rstd = 1/sqrt(mean(x²) + epsilon).
//
//   T  rows   C  normalised dim   s  1 when one_plus (Megatron's --apply-layernorm-1p), else 0
// Maths in f32. The sum over a row is 16 interleaved partial sums, the sum over rows blocks of kNormRows rows: fixed
// order, any thread count. Source: Zhang & Sennrich, arXiv:1910.07467.
// Code: ops/rms_norm.cc, ops/cpu/norm.cc. Tests: tests/ops/norm_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

inline constexpr std::int64_t kNormRows = 128;  // rows added before they join a column sum

struct RmsNormForwardArgs {
  View x;       // [T, C], last stride 1 (rows may be strided: a head's slice of qkv works)
  View weight;  // [C]; any float
  View out;     // [T, C]; may be x
  View rstd;    // f32 [T]; written for backward; absent when not wanted
  float epsilon = 1e-5f;
  bool one_plus = false;
};

// cost  2·T·C elements moved
void rms_norm_forward(Stream& stream, const RmsNormForwardArgs& args);

struct RmsNormBackwardArgs {
  View dout;       // [T, C]
  View x;          // [T, C] of forward
  View weight;     // [C]
  View rstd;       // f32 [T] of forward
  View dresidual;  // [T, C] added to dx (the gradient of the skip connection); absent: nothing added; may be dx
  View dx;         // [T, C], overwritten; may be dout; absent when not wanted
  View dweight;    // [C], any float, accumulated; absent when not wanted
  bool one_plus = false;
};

// dx = rstd·(g − x·rstd²·mean(g·x)) + dresidual with g = dout·(w + s);  dweight += Σ_t dout·x·rstd.
// cost  4·T·C elements moved, 6 with dweight
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args);

// Of RMSNorm or LayerNorm.
Cost norm_cost(std::int64_t rows, std::int64_t columns, int bytes_per_element, bool backward);

}  // namespace mt::ops
