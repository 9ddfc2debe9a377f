#pragma once
// Cases of ops/fp8.h: rounding in double, by the definition of the formats and not by their bits.

#include <cmath>

#include "ops/fp8.h"
#include "ops/op_case.h"

namespace mt::test {

// The nearest value of a format with `mantissa` bits and the least exponent `low`, ties to even; too large ones saturate.
inline double nearest_fp8(double x, DType format) {
  const int mantissa = format == DType::e4m3 ? 3 : 2, low = format == DType::e4m3 ? -6 : -14;
  const double largest = format == DType::e4m3 ? 448 : 57344;
  if (x == 0 || std::isnan(x)) return x;
  const int e = std::max(std::ilogb(x), low);
  const double step = std::ldexp(1.0, e - mantissa);
  return std::copysign(std::min(std::nearbyint(std::fabs(x) / step) * step, largest), x);
}

inline double pow2_scale(double amax, DType format, int margin) {
  if (amax == 0) return 1;
  const double largest = format == DType::e4m3 ? 448 : 57344;
  double s = std::ldexp(1.0, 200);
  while (amax * s > largest) s /= 2;
  return std::ldexp(s, -margin);
}

struct Fp8Shape {
  I rows, columns, block_rows, block_columns;  // blocks of 0: a scale for all
  DType format = DType::e4m3, dtype = DType::bf16;
  int margin = 0;
  double spread = 1;
};

inline OpCase fp8_case(Fp8Shape f, bool with_answer = true) {
  return {fmt::format("fp8 {}x{} blocks {}x{} {} {} margin {} spread {}", f.rows, f.columns, f.block_rows,
                      f.block_columns, dtype_name(f.format), dtype_name(f.dtype), f.margin, f.spread),
          [=] {
            Prepared p;
            const View x = p.data->normal(f.dtype, {f.rows, f.columns}, f.spread),
                       out = p.data->zeros(f.dtype, {f.rows, f.columns}), amax = p.data->zeros(DType::f32, {1});
            const Doubles v = values(x);
            Doubles want(v.size());
            double most = 0;
            for (double d : v) most = std::max(most, std::fabs(d));
            const I br = f.block_rows > 0 ? f.block_rows : f.rows, bc = f.block_rows > 0 ? f.block_columns : f.columns;
            for (I r = 0; with_answer && r < f.rows; r += br)
              for (I c = 0; c < f.columns; c += bc) {
                double here = 0;
                const auto each = [&](auto g) {
                  for (I i = r; i < std::min(r + br, f.rows); ++i)
                    for (I j = c; j < std::min(c + bc, f.columns); ++j) g(z(i * f.columns + j));
                };
                each([&](std::size_t i) { here = std::max(here, std::fabs(v[i])); });
                const double s = pow2_scale(here, f.format, f.margin);
                each([&](std::size_t i) { want[i] = nearest_fp8(v[i] * s, f.format) / s; });
              }
            const View by = f.block_rows > 0 ? View() : amax;
            p.run = [=](Stream& st) {
              ops::abs_max(st, {x, amax});
              ops::fp8_round(st, {x, out, f.format, by, f.margin, std::max<I>(1, f.block_rows), std::max<I>(1, f.block_columns)});
            };
            // Exactly: nothing but the rounding to fp8 is lost.
            p.outputs = {{"out", out, with_answer ? want : Doubles(), 0}, {"amax", amax, {most}, 0}};
            p.cost = ops::fp8_round_cost(f.rows, f.columns, ::mt::bits_of(f.dtype) / 8);
            return p;
          }};
}

inline std::vector<OpCase> fp8_cases() {
  std::vector<OpCase> out;
  for (DType format : {DType::e4m3, DType::e5m2})
    for (DType dtype : {DType::bf16, DType::f32}) {
      out.push_back(fp8_case({7, 33, 0, 0, format, dtype}));
      out.push_back(fp8_case({5, 300, 1, 128, format, dtype, 0, 1e-3}));
      out.push_back(fp8_case({300, 5, 128, 1, format, dtype, 2, 1e4}));
      out.push_back(fp8_case({200, 150, 128, 128, format, dtype, 0, 1e-20}));
      out.push_back(fp8_case({1, 1, 0, 0, format, dtype, 1}));
    }
  out.push_back(fp8_case({700, 130, 0, 0}, false));
  out.push_back(fp8_case({700, 130, 128, 128}, false));
  return out;
}

}  // namespace mt::test
