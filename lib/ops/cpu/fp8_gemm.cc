#include "ops/cpu/kernels.h"

namespace mt::ops::cpu {

void fp8_gemm(const Stream& stream, const Fp8GemmArgs& g) {
  fp8_round(stream, g.a);
  fp8_round(stream, g.b);
  gemm(stream, gemm_of_copies(g));
}

}  // namespace mt::ops::cpu
