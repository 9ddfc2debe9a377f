#include "ops/cpu/kernels.h"

namespace mt::ops::cpu {

void fp8_gemm(const Stream& stream, const Fp8GemmArgs& g) {
  fp8_round(stream, g.a);
  fp8_round(stream, g.b);
  gemm(stream, {.a = g.a.out,
                .b = g.b.out,
                .c = g.c,
                .trans_a = g.trans_a,
                .trans_b = g.trans_b,
                .accumulate = g.accumulate,
                .bias = g.bias,
                .mode = g.mode});
}

}  // namespace mt::ops::cpu
