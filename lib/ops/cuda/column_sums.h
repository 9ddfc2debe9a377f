#pragma once
// Sums over rows in two steps: blocks of kNormRows rows into scratch, then the blocks onto the result in order.
//
// The order is that of ops/cpu/column_sums.h, so equal addends give the CPU's bits.

#include "ops/cuda/elements.h"
#include "ops/rms_norm.h"

namespace mt::ops::cuda {

// partial[block of rows][which sum][column]; f(row, column, count, sums) adds a row's part.
template <int kSums, class F>
struct ColumnPartials {
  F f;
  Elements partial;
  Count rows;

  __device__ void operator()(Count block, Count column, int count) const {
    float sum[kSums][kGroup] = {};
    const Count last = (block + 1) * kNormRows < rows ? (block + 1) * kNormRows : rows;
#pragma unroll 4
    for (Count row = block * kNormRows; row < last; ++row) f(row, column, count, sum);
#pragma unroll
    for (int s = 0; s < kSums; ++s) store(partial, block * kSums + s, column, count, sum[s]);
  }
};

template <int kSums>
struct ColumnTotals {
  Elements out[kSums];
  Elements partial;
  Count blocks;

  __device__ void operator()(Count which, Count column, int count) const {
    float sum[kGroup], more[kGroup];
    const Elements& to = out[kSums == 1 ? 0 : which];
    load(to, 0, column, count, sum);
    for (Count b = 0; b < blocks; ++b) {
      load(partial, b * kSums + which, column, count, more);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) sum[i] += more[i];
    }
    store(to, 0, column, count, sum);
  }
};

// Adds to `out` (and `second`), which are rounded once where they are not f32.
template <int kSums, class F>
void column_sums(const Stream& stream, Count rows, Count columns, const F& f, const View& out,
                 const View& second = {}) {
  if (rows <= 0 || columns <= 0) return;
  const Count blocks = ceil_div(rows, kNormRows);
  Elements partial;
  partial.data = mt::cuda::scratch(stream, static_cast<std::size_t>(blocks * kSums * columns) * sizeof(float));
  partial.stride = columns;
  partial.whole_words = columns % 4 == 0;
  each_group(stream, blocks, columns, ColumnPartials<kSums, F>{f, partial, rows});
  ColumnTotals<kSums> totals{{flat(out)}, partial, blocks};
  if constexpr (kSums == 2) totals.out[1] = flat(second);
  each_group(stream, kSums, columns, totals);
}

}  // namespace mt::ops::cuda
