#include "ops/cpu/kernels.h"

namespace mt::ops::cpu {

void gemm_gelu(const Stream& stream, const GemmGeluArgs& g) {
  GemmArgs product = g.product;
  const View c = product.c;
  if (!g.backward) product.c = g.aux;
  gemm(stream, product);
  if (g.backward) activation_backward(stream, {.x = g.aux, .bias = {}, .dout = c, .dx = c, .dbias = {}});
  else activation_forward(stream, {.x = g.aux, .bias = {}, .out = c});
}

}  // namespace mt::ops::cpu
