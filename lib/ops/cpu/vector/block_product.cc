#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {

// Registers: M·N accumulators, N of B and one of A fit the 32 (or 16) the class has.
#if defined(__AVX512F__)
constexpr Count kRows = 6, kColumns = 4;
#else
constexpr Count kRows = 4, kColumns = 1;
#endif

template <Count M, Count N>
void tile(const BlockProduct& p, Count i0, Count j0) {
  Lanes acc[M][N];
  float* c = p.c + i0 * p.c_row + j0;
  for (Count i = 0; i < M; ++i)
    for (Count j = 0; j < N; ++j) acc[i][j] = p.accumulate ? load(c + i * p.c_row + j * kLanes) : all(0.0f);
  const float* a = p.a + i0 * p.a_row;
  const float* b = p.b + j0;
  const Count a_row = p.a_row, a_column = p.a_column, b_row = p.b_row;
  for (Count k = 0; k < p.k; ++k) {
    Lanes row[N];
#pragma GCC unroll 4
    for (Count j = 0; j < N; ++j) row[j] = load(b + j * kLanes);
#pragma GCC unroll 8
    for (Count i = 0; i < M; ++i) {
      const Lanes x = all(a[i * a_row]);
#pragma GCC unroll 4
      for (Count j = 0; j < N; ++j) acc[i][j] = multiply_add(x, row[j], acc[i][j]);
    }
    a += a_column;
    b += b_row;
  }
  for (Count i = 0; i < M; ++i)
    for (Count j = 0; j < N; ++j) store(c + i * p.c_row + j * kLanes, acc[i][j]);
}

template <Count N>
void column(const BlockProduct& p, Count j0) {
  Count i = 0;
  for (; i + kRows <= p.m; i += kRows) tile<kRows, N>(p, i, j0);
  switch (p.m - i) {
    case 1: tile<1, N>(p, i, j0); break;
    case 2: tile<2, N>(p, i, j0); break;
    case 3: tile<3, N>(p, i, j0); break;
    case 4: tile<kRows < 5 ? 1 : 4, N>(p, i, j0); break;
    case 5: tile<kRows < 6 ? 1 : 5, N>(p, i, j0); break;
    default: break;
  }
}

}  // namespace

void block_product(const BlockProduct& p) {
  Count j = 0;
  for (; j + kColumns * kLanes <= p.n; j += kColumns * kLanes) column<kColumns>(p, j);
#if defined(__AVX512F__)
  switch ((p.n - j) / kLanes) {
    case 1: column<1>(p, j); break;
    case 2: column<2>(p, j); break;
    case 3: column<3>(p, j); break;
    default: break;
  }
#endif
}

}  // namespace mt::ops::cpu::MT_ISA
