#include "ops/cuda/kernels.h"
#include "ops/cuda/matmul.h"

namespace mt::ops::cuda {

void gemm(const Stream& stream, const GemmArgs& g) {
  const Count k = g.trans_a ? g.a.dim(-2) : g.a.dim(-1);
  if (k == 0) {
    if (!g.accumulate) add_bias(stream, {}, g.bias, g.c);
    return;
  }
  matmul(stream, {Matrix(g.a), Matrix(g.b), g.c, g.bias, g.trans_a, g.trans_b, g.accumulate, g.mode});
}

}  // namespace mt::ops::cuda
