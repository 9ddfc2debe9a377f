#include "ops/cpu/kernels.h"

namespace mt::ops::cpu {

void fp8_quantize(const Stream& stream, const Fp8QuantizeArgs& q) {
  if (q.seen) abs_max(stream, {q.x, q.seen});
  for (const Fp8RoundArgs& r : rounded_copies(q))
    if (r.out) fp8_round(stream, r);
}

void fp8_form(const Stream&, const Fp8FormArgs& g) { g.form = Fp8Form::rounded; }

void fp8_gemm(const Stream& stream, const Fp8GemmArgs& g) { gemm(stream, gemm_of_copies(g)); }

}  // namespace mt::ops::cpu
