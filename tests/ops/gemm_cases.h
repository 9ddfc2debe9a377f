#pragma once
// Cases of ops/gemm.h.

#include "ops/gemm.h"
#include "ops/op_case.h"

namespace mt::test {

struct GemmShape {
  I batch, m, n, k;
  DType in, out;
  bool ta, tb, accumulate, bias;
  I pad = 0;  // extra elements between rows
  ops::GemmMode mode = {};
};

inline View strided(Data& d, DType t, const GemmShape& s, I rows, I columns) {
  const Shape shape = s.batch > 0 ? Shape{s.batch, rows, columns + s.pad} : Shape{rows, columns + s.pad};
  return d.normal(t, shape).slice(-1, 0, columns);
}

inline OpCase gemm_case(const GemmShape& s, bool with_answer = true) {
  const std::string name =
      fmt::format("gemm batch {} {}x{}x{} {}->{} ta {} tb {} acc {} bias {} pad {}", s.batch, s.m, s.n, s.k,
                  dtype_name(s.in), dtype_name(s.out), s.ta, s.tb, s.accumulate, s.bias, s.pad) +
      (s.mode.tf32 ? " tf32" : "") + (s.mode.candidates > 1 ? fmt::format(" of {}", s.mode.candidates) : "");
  return {name, [s, with_answer] {
            Prepared p;
            Data& d = *p.data;
            ops::GemmArgs g;
            g.a = s.ta ? strided(d, s.in, s, s.k, s.m) : strided(d, s.in, s, s.m, s.k);
            g.b = s.tb ? strided(d, s.in, s, s.n, s.k) : strided(d, s.in, s, s.k, s.n);
            g.c = strided(d, s.out, s, s.m, s.n);
            g.trans_a = s.ta;
            g.trans_b = s.tb;
            g.accumulate = s.accumulate;
            g.mode = s.mode;
            if (s.bias) g.bias = d.normal(s.in, {s.n});
            p.cost = ops::gemm_cost(g);
            p.run = [g](Stream& stream) { ops::gemm(stream, g); };
            Doubles want;
            if (with_answer) {
              const Doubles a = values(g.a), b = values(g.b), c = values(g.c);
              const Doubles bias = s.bias ? values(g.bias) : Doubles(z(s.n), 0.0);
              for (I i = 0; i < std::max<I>(s.batch, 1); ++i)
                for (I r = 0; r < s.m; ++r)
                  for (I q = 0; q < s.n; ++q) {
                    double sum = s.accumulate ? c[z((i * s.m + r) * s.n + q)] : bias[z(q)];
                    for (I k = 0; k < s.k; ++k)
                      sum += a[z(i * s.m * s.k + (s.ta ? k * s.m + r : r * s.k + k))] *
                             b[z(i * s.n * s.k + (s.tb ? q * s.k + k : k * s.n + q))];
                    want.push_back(sum);
                  }
            }
            double f32_part = 2e-6 + 2e-8 * static_cast<double>(s.k);  // sums of k terms of size 1
            if (s.mode.tf32 && s.in == DType::f32) f32_part += 8 * 0x1p-11 * std::sqrt(static_cast<double>(s.k));
            p.outputs = {{"c", g.c, want, tolerance(s.out, f32_part)}};
            return p;
          }};
}

inline std::vector<OpCase> gemm_cases() {
  std::vector<OpCase> out;
  const auto f32 = DType::f32, b16 = DType::bf16, h16 = DType::f16;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      out.push_back(gemm_case({0, 37, 51, 29, f32, f32, ta, tb, false, false}));
      out.push_back(gemm_case({0, 37, 51, 29, f32, f32, ta, tb, true, false, 3}));
      out.push_back(gemm_case({0, 160, 144, 70, b16, b16, ta, tb, false, true}));
      out.push_back(gemm_case({0, 130, 140, 33, b16, f32, ta, tb, true, false, 5}));
      out.push_back(gemm_case({0, 130, 140, 33, b16, b16, ta, tb, true, false, 5}));
      out.push_back(gemm_case({3, 20, 17, 40, b16, f32, ta, tb, false, false}));
      out.push_back(gemm_case({2, 9, 33, 12, h16, h16, ta, tb, false, true, 1}));
    }
  out.push_back(gemm_case({0, 64, 80, 48, f32, f32, false, true, false, true}));
  out.push_back(gemm_case({0, 1, 300, 64, b16, b16, false, true, false, false}));
  out.push_back(gemm_case({0, 300, 1, 64, f32, f32, false, true, false, false}));
  out.push_back(gemm_case({0, 24, 40, 5000, f32, f32, true, false, true, false}));
  out.push_back(gemm_case({0, 24, 40, 5000, b16, b16, false, true, false, true}));
  out.push_back(gemm_case({0, 24, 40, 5000, b16, b16, true, false, true, false}));
  out.push_back(gemm_case({0, 5, 7, 0, b16, b16, true, false, true, false}));
  out.push_back(gemm_case({0, 5, 7, 0, f32, f32, false, false, false, true}));
  out.push_back(gemm_case({0, 5, 7, 0, f32, f32, false, false, true, false}));
  return out;
}

// What GemmMode changes: operands of f32 rounded to tf32, and the fastest of several algorithms, whose trial runs must
// leave what is added to alone.
inline std::vector<OpCase> gemm_mode_cases() {
  const auto f32 = DType::f32, b16 = DType::bf16;
  std::vector<OpCase> out;
  for (bool tf32 : {false, true})
    for (int candidates : {1, 4}) {
      const ops::GemmMode mode{tf32, candidates};
      out.push_back(gemm_case({0, 37, 51, 29, f32, f32, false, true, false, true, 0, mode}));
      out.push_back(gemm_case({0, 40, 24, 64, f32, f32, true, false, true, false, 3, mode}));
      out.push_back(gemm_case({2, 33, 17, 40, b16, b16, false, false, false, true, 0, mode}));
      out.push_back(gemm_case({2, 16, 24, 33, b16, f32, true, true, true, false, 5, mode}));
      out.push_back(gemm_case({0, 20, 24, 31, DType::f16, f32, true, false, true, false, 0, mode}));
    }
  return out;
}

// Several tiles, odd edges: bits only.
inline std::vector<OpCase> gemm_tile_cases() {
  std::vector<OpCase> out;
  for (DType t : {DType::f32, DType::bf16})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        out.push_back(gemm_case({0, 515, 389, 130, t, t, ta, tb, false, false}, false));
        out.push_back(gemm_case({0, 515, 389, 130, t, DType::f32, ta, tb, true, false}, false));
      }
  return out;
}

}  // namespace mt::test
