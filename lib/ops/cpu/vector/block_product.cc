#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {

// One register of the class. M·N accumulators, N of B and one of A fit the 32 (AVX-512) or 16 there are.
#if defined(__AVX512F__)
using Register = __m512;
constexpr Count kWidth = 16, kRows = 6, kColumns = 4;
MT_LANES Register get(const float* p) { return _mm512_loadu_ps(p); }
MT_LANES void put(float* p, Register r) { _mm512_storeu_ps(p, r); }
MT_LANES Register everywhere(float f) { return _mm512_set1_ps(f); }
MT_LANES Register fused(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__FMA__)
using Register = __m256;
constexpr Count kWidth = 8, kRows = 6, kColumns = 2;
MT_LANES Register get(const float* p) { return _mm256_loadu_ps(p); }
MT_LANES void put(float* p, Register r) { _mm256_storeu_ps(p, r); }
MT_LANES Register everywhere(float f) { return _mm256_set1_ps(f); }
MT_LANES Register fused(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
#else
typedef float Register __attribute__((vector_size(16)));
typedef float Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
constexpr Count kWidth = 4, kRows = 4, kColumns = 2;
MT_LANES Register get(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
MT_LANES void put(float* p, Register r) { *reinterpret_cast<Unaligned*>(p) = r; }
MT_LANES Register everywhere(float f) { return Register{f, f, f, f}; }
MT_LANES Register fused(Register a, Register b, Register c) { return a * b + c; }
#endif

template <Count M, Count N>
void tile(const BlockProduct& p, Count i0, Count j0) {
  Register acc[M][N];
  float* c = p.c + i0 * p.c_row + j0;
  const Count c_row = p.c_row, a_row = p.a_row, a_column = p.a_column, b_row = p.b_row;
#pragma GCC unroll 8
  for (Count i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (Count j = 0; j < N; ++j) acc[i][j] = p.accumulate ? get(c + i * c_row + j * kWidth) : everywhere(0.0f);
  const float* a = p.a + i0 * a_row;
  const float* b = p.b + j0;
  for (Count k = p.k; k > 0; --k) {
    Register row[N];
#pragma GCC unroll 8
    for (Count j = 0; j < N; ++j) row[j] = get(b + j * kWidth);
#pragma GCC unroll 8
    for (Count i = 0; i < M; ++i) {
      const Register x = everywhere(a[i * a_row]);
#pragma GCC unroll 8
      for (Count j = 0; j < N; ++j) acc[i][j] = fused(x, row[j], acc[i][j]);
    }
    a += a_column;
    b += b_row;
  }
#pragma GCC unroll 8
  for (Count i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (Count j = 0; j < N; ++j) put(c + i * c_row + j * kWidth, acc[i][j]);
}

template <Count N>
void column(const BlockProduct& p, Count j0) {
  Count i = 0;
  for (; i + kRows <= p.m; i += kRows) tile<kRows, N>(p, i, j0);
  switch (p.m - i) {
    case 1: tile<1, N>(p, i, j0); break;
    case 2: tile<2, N>(p, i, j0); break;
    case 3: tile<3, N>(p, i, j0); break;
    case 4: tile < kRows<5 ? 1 : 4, N>(p, i, j0); break;
    case 5: tile < kRows<6 ? 1 : 5, N>(p, i, j0); break;
    default: break;
  }
}

}  // namespace

void block_product(const BlockProduct& p) {
  Count j = 0;
  for (; j + kColumns * kWidth <= p.n; j += kColumns * kWidth) column<kColumns>(p, j);
#if defined(__AVX512F__)
  switch ((p.n - j) / kWidth) {
    case 1: column<1>(p, j); break;
    case 2: column<2>(p, j); break;
    case 3: column<3>(p, j); break;
    default: break;
  }
#endif
}

}  // namespace mt::ops::cpu::MT_ISA
