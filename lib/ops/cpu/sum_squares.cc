#include <cmath>
#include <mutex>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

void sum_squares(const Stream& stream, const SumSquaresArgs& g) {
  std::int64_t sum[kSumSquaresSize] = {};
  std::mutex mutex;  // integers: the order in which blocks arrive does not matter
  parallel_ranges(stream, g.x.size(), 8 * kSquaresBlock, [&](Count begin, Count end) {
    std::int64_t digits[kSumSquaresSize] = {};
    const Scratch s(g.x.dtype == DType::f32 ? 0 : kSquaresBlock);
    for (Count i = begin; i < end; i += kSquaresBlock) {
      const Count n = end - i < kSquaresBlock ? end - i : kSquaresBlock;
      digits[kSumSquaresDigits] += vector().add_squares(read(g.x.dtype, element(g.x, i), n, s.at(0)), n, digits);
    }
    const std::lock_guard lock(mutex);
    for (int d = 0; d < kSumSquaresSize; ++d) sum[d] += digits[d];
    // Carry, so that no digit can overflow however many blocks come.
    for (int d = 0; d + 1 < kSumSquaresDigits; ++d) {
      sum[d + 1] += sum[d] >> 32;
      sum[d] &= 0xffffffff;
    }
  });
  for (int d = 0; d < kSumSquaresSize; ++d) static_cast<std::int64_t*>(g.bins.data)[d] += sum[d];
}

void inverse_norm(const Stream&, const InverseNormArgs& g) {
  const double norm = std::sqrt(sum_of_digits(g.bins.as<std::int64_t>()));
  *g.out.as<float>() = static_cast<float>(1 / (norm < g.least ? g.least : norm));  // NaN stays
}

}  // namespace mt::ops::cpu
