#pragma once
// Activation functions, plain and gated, with the bias of the layer before fused in.
//
//   T  tokens   F  ffn width   gated: the input is [gate | up] of width 2F and the result act(gate)·up (SwiGLU, GEGLU)
// Formulas and derivatives: ops/scalar.h, one copy for every backend, maths in f32.
// Code: ops/activation.cc, ops/cpu/activation.cc. Tests: tests/ops/activation_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

enum class Activation : std::uint8_t { gelu_tanh, gelu_erf, silu, relu, squared_relu };
const char* activation_name(Activation a);

struct ActivationForwardArgs {
  View x;     // [T, F]; gated [T, 2F]
  View bias;  // [F] ([2F]) or absent; any float
  View out;   // [T, F]; may be x unless gated
  Activation kind = Activation::gelu_tanh;
  bool gated = false;
};

// out = act(x + bias), or act(gate + bias_g)·(up + bias_u).   cost  2·T·F (3·T·F) elements moved
void activation_forward(Stream& stream, const ActivationForwardArgs& args);

struct ActivationBackwardArgs {
  View x;      // of forward, bias not added
  View bias;   // of forward
  View dout;   // [T, F]
  View dx;     // shape of x, overwritten; may be x; may be dout unless gated
  View dbias;  // any float, shape of bias, accumulated; absent when not wanted
  Activation kind = Activation::gelu_tanh;
  bool gated = false;
};

// cost  3·T·F (5·T·F) elements moved
void activation_backward(Stream& stream, const ActivationBackwardArgs& args);

Cost activation_cost(std::int64_t tokens, std::int64_t ffn, bool gated, bool backward, int bytes_per_element);

}  // namespace mt::ops
