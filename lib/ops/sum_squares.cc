#include "ops/sum_squares.h"

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
  return sum_of_digits(bins.data());
}

void inverse_norm(Stream& stream, const InverseNormArgs& g) {
  MT_CHECK_VIEW(g.bins, DType::i64, {kSumSquaresSize});
  MT_CHECK_VIEW(g.out, DType::f32, {1});
  dispatch(stream, &Kernels::inverse_norm, g);
}

std::int64_t sum_squares_non_finite(std::span<const std::int64_t> bins) {
  MT_CHECK(bins.size() == kSumSquaresSize, "{} bins", bins.size());
  return bins[kSumSquaresDigits];
}

}  // namespace mt::ops
