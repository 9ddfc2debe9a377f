#include "ops/sum_squares.h"

#include <cmath>
#include <limits>

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

void sum_squares(Stream& stream, const SumSquaresArgs& g) {
  MT_CHECK(is_float(g.x) && g.x.contiguous(), "x {} of {}", dtype_name(g.x.dtype), shape_text(g.x.shape));
  MT_CHECK_VIEW(g.bins, DType::i64, {kSumSquaresSize});
  dispatch(stream, &Kernels::sum_squares, g);
}

double sum_squares_value(std::span<const std::int64_t> bins) {
  MT_CHECK(bins.size() == kSumSquaresSize, "{} bins", bins.size());
  if (bins[kSumSquaresDigits] != 0) return std::numeric_limits<double>::quiet_NaN();
  std::uint64_t digits[kSumSquaresDigits + 2] = {};
  std::int64_t carry = 0;
  for (int d = 0; d < kSumSquaresDigits; ++d) {
    const std::int64_t v = bins[static_cast<std::size_t>(d)] + carry;
    digits[d] = static_cast<std::uint64_t>(v & 0xffffffff);
    carry = v >> 32;
  }
  digits[kSumSquaresDigits] = static_cast<std::uint64_t>(carry);
  // The top three digits hold at least 65 bits; what lies below is less than one unit of a double's last place.
  int top = kSumSquaresDigits;
  while (top > 2 && digits[top] == 0) --top;
  double sum = 0;
  for (int d = top - 2; d <= top; ++d) sum += std::ldexp(static_cast<double>(digits[d]), 32 * d - 298);
  return sum;
}

std::int64_t sum_squares_non_finite(std::span<const std::int64_t> bins) {
  MT_CHECK(bins.size() == kSumSquaresSize, "{} bins", bins.size());
  return bins[kSumSquaresDigits];
}

}  // namespace mt::ops
