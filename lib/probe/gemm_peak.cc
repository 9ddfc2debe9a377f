#include "probe/gemm_peak.h"

#include <algorithm>

#include "base/clock.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "tensor/tensor.h"

namespace mt {

double gemm_peak_flop_per_s(Stream& stream, DType dtype, std::int64_t n, int tries) {
  const Tensor a(stream.device(), dtype, {n, n}), b(stream.device(), dtype, {n, n}), c(stream.device(), dtype, {n, n});
  ops::fill(stream, a, 0.5);
  ops::fill(stream, b, 0.25);
  double best_s = 1e30;
  for (int i = 0; i <= tries; ++i) {
    const auto start = Clock::now();
    ops::gemm(stream, {.a = a, .b = b, .c = c});
    stream.synchronize();
    const double s = seconds_since(start);
    if (i > 0) best_s = std::min(best_s, s);
  }
  const auto side = static_cast<double>(n);
  return 2 * side * side * side / best_s;
}

}  // namespace mt
