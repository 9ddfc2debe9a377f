#include "ops/cuda/kernels.h"
#include "ops/cuda/matmul.h"

namespace mt::ops::cuda {

void gemm_gelu(const Stream& stream, const GemmGeluArgs& g) {
  GemmArgs product = g.product;
  const View c = product.c;
  MatmulArgs fused{Matrix(product.a), Matrix(product.b), c, product.bias, product.trans_a, product.trans_b, false, product.mode};
  fused.epilogue = g.backward ? Epilogue::gelu_backward : Epilogue::gelu;
  fused.aux = g.aux;
  // The library's rules: 16-bit results, all of one dtype, rows of aux on borders of eight elements.
  const bool fits = product.a.dim(product.trans_a ? 0 : 1) > 0 && c.dtype != DType::f32 &&
                    (!product.bias || product.bias.dtype == c.dtype) && on_borders(c) && on_borders(g.aux) &&
                    c.dim(1) % 8 == 0;
  if (fits && can_matmul(stream, fused)) return matmul(stream, fused);
  if (!g.backward) product.c = g.aux;
  gemm(stream, product);
  if (g.backward) activation_backward(stream, {.x = g.aux, .bias = {}, .dout = c, .dx = c, .dbias = {}});
  else activation_forward(stream, {.x = g.aux, .bias = {}, .out = c});
}

}  // namespace mt::ops::cuda
