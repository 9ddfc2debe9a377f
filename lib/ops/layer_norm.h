#pragma once
// LayerNorm over the last dimension:  y = (x − mean) · rstd · (w + s) + b,  rstd = 1/sqrt(var + epsilon).
//
//   T  rows   C  normalised dim   var  mean of (x − mean)², two passes   s  1 when one_plus, else 0
// Maths in f32; sums in the fixed order of ops/rms_norm.h. Source: Ba et al., arXiv:1607.06450.
// Code: ops/layer_norm.cc, ops/cpu/norm.cc. Tests: tests/ops/norm_test.cc.

#include "device/stream.h"
#include "ops/rms_norm.h"
#include "tensor/view.h"

namespace mt::ops {

struct LayerNormForwardArgs {
  View x;             // [T, C], last stride 1
  View weight, bias;  // [C]; any float
  View out;           // [T, C]; may be x
  View mean, rstd;    // f32 [T]; written for backward; absent when not wanted
  float epsilon = 1e-5f;
  bool one_plus = false;
};

// cost  2·T·C elements moved
void layer_norm_forward(Stream& stream, const LayerNormForwardArgs& args);

struct LayerNormBackwardArgs {
  View dout;            // [T, C]
  View x;               // [T, C] of forward
  View weight;          // [C]
  View mean, rstd;      // f32 [T] of forward
  View dresidual;       // [T, C] added to dx; absent: nothing added; may be dx
  View dx;              // [T, C], overwritten; may be dout; absent when not wanted
  View dweight, dbias;  // [C], any float, accumulated; both or neither
  bool one_plus = false;
};

// With n = (x − mean)·rstd, g = dout·(w + s):  dx = rstd·(g − mean(g) − n·mean(g·n)) + dresidual;
// dweight += Σ_t dout·n;  dbias += Σ_t dout.   cost  4·T·C elements moved, 6 with dweight
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args);

}  // namespace mt::ops
