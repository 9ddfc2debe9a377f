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
// 2·kColumnBlock. With Sums = 2 the second sum starts at sum + kColumnBlock. Results are added to out (and second).
template <int Sums = 1, class F>
void column_sums(const Stream& stream, Count rows, Count columns, const F& add, float* out, float* second = nullptr) {
  parallel_ranges(stream, columns, kColumnBlock, [&](Count lo, Count hi) {
    alignas(64) float line[2 * kColumnBlock], sum[Sums * kColumnBlock];
    for (Count t = 0; t < rows; t += kNormRows) {
      for (float& s : sum) s = 0;
      for (Count i = t; i < rows && i < t + kNormRows; ++i) add(i, lo, hi, line, sum);
      vector().add(out + lo, sum, out + lo, hi - lo);
      if (Sums == 2) vector().add(second + lo, sum + kColumnBlock, second + lo, hi - lo);
    }
  });
}

}  // namespace mt::ops::cpu
