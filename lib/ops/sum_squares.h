#pragma once
// The sum of squares of many numbers, exactly: the same integers for any order, cut or number of ranks.
//
// The square of an f32 is an integer below 2^48 times 2^(2e−298). It is added in digits of 32 bits held in i64, so an
// integer all-reduce of the digits gives the exact global sum, and equal gradients give the identical norm.
// Source: Kulisch's long accumulator. Code: ops/sum_squares.cc, ops/cpu/sum_squares.cc.
// Tests: tests/ops/sum_squares_test.cc.

#include <bit>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "device/stream.h"
#include "tensor/view.h"

namespace mt::ops {

inline constexpr int kSumSquaresDigits = 20;  // 640 bits: 2^554 is the largest square, 2^86 of them fit
inline constexpr int kSumSquaresSize = kSumSquaresDigits + 1;  // the last slot counts infinities and NaNs

struct SumSquaresArgs {
  View x;     // [n] contiguous; f32, bf16 or f16
  View bins;  // i64 [kSumSquaresSize], accumulated; start from zeros
};

// Adds the squares of x. On leaving, the digits this call added are each below 2^32, so 2^31 calls or ranks may add up.
// Infinities and NaNs add nothing but to the count.   cost  n elements read
void sum_squares(Stream& stream, const SumSquaresArgs& args);

// The sum rounded to double (at most 1 unit in the last place low). A count of non-finite elements above 0 gives NaN.
double sum_squares_value(std::span<const std::int64_t> bins);

struct InverseNormArgs {
  View bins;         // of sum_squares
  View out;          // f32 [1], written
  double least = 0;  // a norm below it counts as this
};
// out = 1 / max(√sum, least), in double, rounded: a factor that scale() reads on the device (ScaleArgs::on_device), the same
// bits as of sum_squares_value on the host.   cost  one thread's work
void inverse_norm(Stream& stream, const InverseNormArgs& args);

// What both are made of.
MT_HD inline double sum_of_digits(const std::int64_t* bins) {
  if (bins[kSumSquaresDigits] != 0) return std::bit_cast<double>(std::uint64_t{0x7ff8000000000000});
  std::uint64_t digits[kSumSquaresDigits + 1] = {};
  std::int64_t carry = 0;
  for (int d = 0; d < kSumSquaresDigits; ++d) {
    const std::int64_t v = bins[d] + carry;
    digits[d] = static_cast<std::uint64_t>(v & 0xffffffff);
    carry = v >> 32;
  }
  digits[kSumSquaresDigits] = static_cast<std::uint64_t>(carry);
  // The top three digits hold at least 65 bits; what lies below is less than one unit of a double's last place.
  int top = kSumSquaresDigits;
  while (top > 2 && digits[top] == 0) --top;
  double sum = 0;
  for (int d = top - 2; d <= top; ++d)
    sum += static_cast<double>(digits[d]) * std::bit_cast<double>(static_cast<std::uint64_t>(32 * d - 298 + 1023) << 52);
  return sum;
}
std::int64_t sum_squares_non_finite(std::span<const std::int64_t> bins);

}  // namespace mt::ops
