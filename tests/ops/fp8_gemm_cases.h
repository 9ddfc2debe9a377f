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

struct Fp8GemmOperand {
  View x, amax;
  ops::Fp8Matrix m;
  int margin = 0;
  bool along_rows = false;
  ops::Fp8QuantizeArgs work() const { return {.x = x, .to = m, .amax = amax, .margin = margin, .seen = {}}; }
};

// An operand [outer, k], stored with rows of k or of outer elements, with memory for the copy along k.
inline Fp8GemmOperand fp8_operand(Data& d, const Fp8GemmShape& s, I outer, bool along_rows, DType format, bool square) {
  Fp8GemmOperand r;
  r.along_rows = along_rows;
  r.m.rows = along_rows ? outer : s.k;
  r.m.columns = along_rows ? s.k : outer;
  r.x = d.normal(s.in, {r.m.rows, r.m.columns + s.pad}, 0.7).slice(1, 0, r.m.columns);
  r.m.dtype = s.in;
  r.m.format = format;
  r.margin = s.margin;
  r.m.scaling = !s.blocks ? ops::Fp8Scaling::tensor : square ? ops::Fp8Scaling::squares : ops::Fp8Scaling::lines;
  if (!s.blocks) r.amax = d.zeros(DType::f32, {1});
  (along_rows ? r.m.along : r.m.down).memory = d.zeros(s.in, {r.m.rows, r.m.columns});
  return r;
}

// Its values as [outer, k], rounded.
inline Doubles rounded_operand(const Fp8GemmOperand& r) {
  const I rows = r.m.rows, columns = r.m.columns;
  const bool lines = r.m.scaling == ops::Fp8Scaling::lines, along_rows = r.along_rows;
  const I br = r.amax ? rows : lines && along_rows ? 1 : 128, bc = r.amax ? columns : lines && !along_rows ? 1 : 128;
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
      const double s = pow2_scale(most, r.m.format, r.margin);
      each([&](I i, I j) {
        out[z(along_rows ? i * columns + j : j * rows + i)] = nearest_fp8(v[z(i * columns + j)] * s, r.m.format) / s;
      });
    }
  return out;
}

// Magnitudes, copies in the form the device wants, the product.
inline void round_and_multiply(Stream& st, Fp8GemmOperand a, Fp8GemmOperand b, ops::Fp8GemmArgs g) {
  g.a = a.m, g.b = b.m;
  const ops::Fp8Form form = ops::fp8_form(st, g);
  for (Fp8GemmOperand* o : {&a, &b}) {
    o->m.along.form = o->m.down.form = form;
    if (o->amax) ops::abs_max(st, {o->x, o->amax});
    ops::fp8_quantize(st, o->work());
  }
  g.a = a.m, g.b = b.m;
  ops::fp8_gemm(st, g);
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
            const Fp8GemmOperand oa = fp8_operand(d, s, s.m, !s.ta, s.format_a, false),
                                 ob = fp8_operand(d, s, s.n, s.tb, s.format_b, !s.both_along);
            g.c = d.normal(s.out, {s.m, s.n + s.pad}).slice(1, 0, s.n);
            g.trans_a = s.ta;
            g.trans_b = s.tb;
            g.accumulate = s.accumulate;
            if (s.bias != DType::u8) g.bias = d.normal(s.bias, {s.n});
            const Doubles a = rounded_operand(oa), b = rounded_operand(ob), c = values(g.c),
                          bias = g.bias ? values(g.bias) : Doubles(z(s.n), 0.0);
            Doubles want;
            for (I i = 0; i < s.m; ++i)
              for (I j = 0; j < s.n; ++j) {
                double sum = s.accumulate ? c[z(i * s.n + j)] : bias[z(j)];
                for (I k = 0; k < s.k; ++k) sum += a[z(i * s.k + k)] * b[z(j * s.k + k)];
                want.push_back(sum);
              }
            p.run = [=](Stream& st) { round_and_multiply(st, oa, ob, g); };
            p.outputs = {{"c", g.c, want, tolerance(s.out, 2e-6 + 2e-8 * static_cast<double>(s.k))}};
            g.a = oa.m, g.b = ob.m;
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
