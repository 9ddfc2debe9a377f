#pragma once
// Cases of fp8_gemm (ops/fp8.h): sums in double of operands rounded by the definition of the formats.

#include "ops/fp8_cases.h"

namespace mt::test {

struct Fp8GemmShape {
  I m, n, k;
  bool ta, tb;
  bool blocks;               // 128 of the sum for a, 128x128 for b (128 of the sum where `both_along`); else a scale a tensor
  bool both_along = false;
  DType format_a = DType::e4m3, format_b = DType::e4m3, in = DType::bf16, out = DType::bf16;
  bool accumulate = false;
  DType bias = DType::u8;    // u8: none
  int margin = 0;
  I pad = 0;                 // elements between rows
};

// How an operand [outer, k], stored with rows of k or of outer elements, is rounded.
inline ops::Fp8RoundArgs fp8_operand(Data& d, const Fp8GemmShape& s, I outer, bool along_rows, DType format, bool square) {
  ops::Fp8RoundArgs r;
  const I rows = along_rows ? outer : s.k, columns = along_rows ? s.k : outer;
  r.x = d.normal(s.in, {rows, columns + s.pad}, 0.7).slice(1, 0, columns);
  r.out = d.zeros(s.in, {rows, columns});
  r.format = format;
  r.margin = s.margin;
  if (!s.blocks) r.amax = d.zeros(DType::f32, {1});
  r.block_rows = square || !along_rows ? 128 : 1;
  r.block_columns = square || along_rows ? 128 : 1;
  return r;
}

// Its values as [outer, k], rounded.
inline Doubles rounded_operand(const ops::Fp8RoundArgs& r, bool along_rows) {
  const I rows = r.x.dim(0), columns = r.x.dim(1);
  const I br = r.amax ? rows : r.block_rows, bc = r.amax ? columns : r.block_columns;
  const Doubles v = values(r.x);
  Doubles out(v.size());
  for (I top = 0; top < rows; top += br)
    for (I left = 0; left < columns; left += bc) {
      double most = 0;
      const auto each = [&](auto f) {
        for (I i = top; i < std::min(top + br, rows); ++i)
          for (I j = left; j < std::min(left + bc, columns); ++j) f(i, j);
      };
      each([&](I i, I j) { most = std::max(most, std::fabs(v[z(i * columns + j)])); });
      const double s = pow2_scale(most, r.format, r.margin);
      each([&](I i, I j) {
        out[z(along_rows ? i * columns + j : j * rows + i)] = nearest_fp8(v[z(i * columns + j)] * s, r.format) / s;
      });
    }
  return out;
}

inline OpCase fp8_gemm_case(const Fp8GemmShape& s) {
  return {fmt::format("fp8 gemm {}x{}x{} ta {} tb {} {} {}x{} {}->{} acc {} bias {} margin {} pad {}", s.m, s.n, s.k, s.ta, s.tb,
                      !s.blocks ? "tensor" : s.both_along ? "lines" : "blocks", dtype_name(s.format_a),
                      dtype_name(s.format_b), dtype_name(s.in), dtype_name(s.out), s.accumulate, dtype_name(s.bias),
                      s.margin, s.pad),
          [s] {
            Prepared p;
            Data& d = *p.data;
            ops::Fp8GemmArgs g;
            g.a = fp8_operand(d, s, s.m, !s.ta, s.format_a, false);
            g.b = fp8_operand(d, s, s.n, s.tb, s.format_b, !s.both_along);
            g.c = d.normal(s.out, {s.m, s.n + s.pad}).slice(1, 0, s.n);
            g.trans_a = s.ta;
            g.trans_b = s.tb;
            g.accumulate = s.accumulate;
            if (s.bias != DType::u8) g.bias = d.normal(s.bias, {s.n});
            const Doubles a = rounded_operand(g.a, !s.ta), b = rounded_operand(g.b, s.tb), c = values(g.c),
                          bias = g.bias ? values(g.bias) : Doubles(z(s.n), 0.0);
            Doubles want;
            for (I i = 0; i < s.m; ++i)
              for (I j = 0; j < s.n; ++j) {
                double sum = s.accumulate ? c[z(i * s.n + j)] : bias[z(j)];
                for (I k = 0; k < s.k; ++k) sum += a[z(i * s.k + k)] * b[z(j * s.k + k)];
                want.push_back(sum);
              }
            p.run = [g](Stream& st) {
              for (const ops::Fp8RoundArgs* r : {&g.a, &g.b})
                if (r->amax) ops::abs_max(st, {r->x, r->amax});
              ops::fp8_gemm(st, g);
            };
            p.outputs = {{"c", g.c, want, tolerance(s.out, 2e-6 + 2e-8 * static_cast<double>(s.k))}};
            p.cost = ops::fp8_gemm_cost(g);
            return p;
          }};
}

// Shapes that fp8 hardware takes: sums of 16, a block, several and a rest, results on borders.
inline std::vector<OpCase> fp8_gemm_hardware_cases() {
  std::vector<OpCase> out;
  const DType e4 = DType::e4m3, e5 = DType::e5m2, b16 = DType::bf16, f32 = DType::f32;
  for (bool blocks : {false, true}) {
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        out.push_back(fp8_gemm_case({36, 24, 16, ta, tb, blocks}));
        out.push_back(fp8_gemm_case({132, 136, 272, ta, tb, blocks, false, e5, e4, b16, f32, true}));
        out.push_back(fp8_gemm_case({40, 264, 144, ta, tb, blocks, true, e4, e5, b16, b16, false, b16, 1, 8}));
      }
    out.push_back(fp8_gemm_case({4, 8, 704, false, true, blocks, false, e4, e4, b16, b16, false, f32}));
    out.push_back(fp8_gemm_case({64, 32, 128, true, false, blocks, true, e4, e4, f32, f32, false, f32}));
    out.push_back(fp8_gemm_case({64, 32, 128, false, true, blocks, false, e4, e5, f32, f32, false, f32, 0, 4}));
  }
  return out;
}

// Those it does not: odd sums, odd rows of the result, both in e5m2, nothing to sum.
inline std::vector<OpCase> fp8_gemm_odd_cases() {
  std::vector<OpCase> out;
  const DType e5 = DType::e5m2, b16 = DType::bf16;
  for (bool blocks : {false, true}) {
    out.push_back(fp8_gemm_case({20, 24, 150, true, false, blocks, true, e5, DType::e4m3, b16, DType::f32, true}));
    out.push_back(fp8_gemm_case({20, 21, 32, false, true, blocks}));
    out.push_back(fp8_gemm_case({20, 24, 32, false, false, blocks, false, e5, e5}));
    out.push_back(fp8_gemm_case({5, 8, 0, false, true, blocks, false, e5, e5, b16, b16, false, b16}));
    out.push_back(fp8_gemm_case({21, 24, 48, false, true, blocks, false, e5, DType::e4m3, b16, b16, false, b16, 0, 3}));
  }
  return out;
}

}  // namespace mt::test
