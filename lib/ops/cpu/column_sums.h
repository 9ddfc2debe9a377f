#pragma once
// Sums over rows, column block by column block: the gradient of a bias or of a norm's weight.
//
// Blocks of kColumnBlock columns run in parallel; within one, rows are added in blocks of kNormRows that then join the
// result in order. So a long sum keeps its precision and no bit depends on the number of threads.

#include "ops/cpu/rows.h"
#include "ops/rms_norm.h"

namespace mt::ops::cpu {

inline constexpr Count kColumnBlock = 256;

// add(row, lo, hi, line, sum): sum[0, hi − lo) += the row's contribution to columns [lo, hi); `line` is scratch of
// 2·kColumnBlock. With Sums = 2 the second sum starts at sum + kColumnBlock. Results are added to out (and second), where
// that is not f32 rounded once.
template <int Sums = 1, class F>
void column_sums(const Stream& stream, Count rows, Count columns, const F& add, const View& out, const View& second = {}) {
  parallel_ranges(stream, columns, kColumnBlock, [&](Count lo, Count hi) {
    alignas(64) float line[2 * kColumnBlock], sum[Sums * kColumnBlock], wide[Sums * kColumnBlock];
    const auto as_f32 = [&](const View& v, float* copy) {
      if (v.dtype == DType::f32) return static_cast<float*>(v.data) + lo;
      to_f32(v.dtype, element(v, lo), copy, hi - lo);
      return copy;
    };
    float *const first = as_f32(out, wide), *const other = Sums == 2 ? as_f32(second, wide + kColumnBlock) : nullptr;
    for (Count t = 0; t < rows; t += kNormRows) {
      for (float& s : sum) s = 0;
      for (Count i = t; i < rows && i < t + kNormRows; ++i) add(i, lo, hi, line, sum);
      vector().add(first, sum, first, hi - lo);
      if (Sums == 2) vector().add(other, sum + kColumnBlock, other, hi - lo);
    }
    if (out.dtype != DType::f32) from_f32(out.dtype, first, element(out, lo), hi - lo);
    if (Sums == 2 && second.dtype != DType::f32) from_f32(second.dtype, other, element(second, lo), hi - lo);
  });
}

}  // namespace mt::ops::cpu
