#pragma once
// The end of a sub-layer: out = residual + dropout(x + bias).
//
//   T  tokens   C  features
// Code: ops/bias_dropout_add.cc, ops/cpu/bias_dropout_add.cc. Tests: tests/ops/bias_dropout_add_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "ops/dropout.h"
#include "tensor/view.h"

namespace mt::ops {

struct BiasDropoutAddForwardArgs {
  View x;         // [T, C]; any float
  View bias;      // [C] or absent; any float
  View residual;  // [T, C] or absent (dropout of an embedding)
  View out;       // [T, C]; may be x or residual
  Dropout dropout;
};

// cost  3·T·C elements moved
void bias_dropout_add_forward(Stream& stream, const BiasDropoutAddForwardArgs& args);

struct BiasDropoutAddBackwardArgs {
  View dout;   // [T, C]
  View dx;     // [T, C] = mask·dout/(1 − p); may be dout. Absent: only dbias is wanted (p = 0, where dx is dout)
  View dbias;  // [C], any float, accumulated; absent when not wanted
  Dropout dropout;
};

// The gradient of the residual is dout itself.   cost  2·T·C elements moved; nothing when p = 0 and dx is dout
void bias_dropout_add_backward(Stream& stream, const BiasDropoutAddBackwardArgs& args);

}  // namespace mt::ops
