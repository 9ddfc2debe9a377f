#include "ops/activation.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

const char* activation_name(Activation a) {
  switch (a) {
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::gelu_erf: return "gelu_erf";
    case Activation::silu: return "silu";
    case Activation::relu: return "relu";
    case Activation::squared_relu: return "squared_relu";
  }
  return "?";
}

void activation_forward(Stream& stream, const ActivationForwardArgs& g) {
  MT_CHECK(g.out.num_dims() == 2, "out {}", shape_text(g.out.shape));
  const std::int64_t rows = g.out.dim(0), n = g.out.dim(1), width = g.gated ? 2 * n : n;
  MT_CHECK_FLOAT(g.x, {rows, width});
  MT_CHECK_FLOAT(g.out, {rows, n});
  if (g.bias) MT_CHECK_FLOAT(g.bias, {width});
  dispatch(stream, &Kernels::activation_forward, g);
}

void activation_backward(Stream& stream, const ActivationBackwardArgs& g) {
  MT_CHECK(g.dout.num_dims() == 2, "dout {}", shape_text(g.dout.shape));
  const std::int64_t rows = g.dout.dim(0), n = g.dout.dim(1), width = g.gated ? 2 * n : n;
  MT_CHECK_FLOAT(g.x, {rows, width});
  MT_CHECK_FLOAT(g.dx, {rows, width});
  MT_CHECK_FLOAT(g.dout, {rows, n});
  if (g.bias) MT_CHECK_FLOAT(g.bias, {width});
  if (g.dbias) MT_CHECK_FLOAT(g.dbias, {width});
  dispatch(stream, &Kernels::activation_backward, g);
}

Cost activation_cost(std::int64_t tokens, std::int64_t ffn, bool gated, bool backward, int bytes_per_element) {
  const double n = static_cast<double>(tokens) * static_cast<double>(ffn);
  const int moved = backward ? (gated ? 5 : 3) : (gated ? 3 : 2);
  return {n * (backward ? 30 : 20), n * bytes_per_element * moved};
}

}  // namespace mt::ops
