#pragma once
// Cases of ops/bias_dropout_add.h.

#include "base/philox.h"
#include "ops/bias_dropout_add.h"
#include "ops/op_case.h"

namespace mt::test {

struct BiasDropoutAddCase {
  I rows, n;
  DType dtype;
  double p;
  I first;
  bool bias, residual;
};

inline double hidden_keep(const BiasDropoutAddCase& c, double ordinal, double position, I column) {
  if (c.p == 0) return 1;
  const auto o = static_cast<std::uint64_t>(ordinal);
  const auto words =
      philox({77, 99}, static_cast<std::uint32_t>((c.first + column) / 4), static_cast<std::uint32_t>(position),
             static_cast<std::uint32_t>(o), static_cast<std::uint32_t>(o >> 32));
  return static_cast<double>(uniform_f32(words[z((c.first + column) % 4)])) >= c.p ? 1 / (1 - c.p) : 0;
}

inline OpCase bias_dropout_add_case(const BiasDropoutAddCase& c, bool backward) {
  const std::string name =
      fmt::format("bias_dropout_add {} {}x{} {} p {} first {} bias {} residual {}", backward ? "backward" : "forward",
                  c.rows, c.n, dtype_name(c.dtype), c.p, c.first, c.bias, c.residual);
  return {name, [=] {
            Prepared p;
            Data& d = *p.data;
            const View x = d.normal(c.dtype, {c.rows, c.n}), bias = c.bias ? d.normal(DType::f32, {c.n}) : View();
            const View residual = c.residual ? d.normal(c.dtype, {c.rows, c.n}) : View(),
                       out = d.zeros(c.dtype, {c.rows, c.n});
            const View ordinals = d.integers(DType::i64, {c.rows}, 0, I{1} << 40),
                       positions = d.integers(DType::i32, {c.rows}, 0, 4096);
            const View db = d.normal(DType::f32, {c.n});
            const Doubles db0 = values(db);
            const ops::Dropout drop{static_cast<float>(c.p), {77, 99}, ordinals, positions, c.first};
            const Doubles vx = values(x), vb = c.bias ? values(bias) : Doubles(z(c.n), 0.0),
                          vr = c.residual ? values(residual) : Doubles(vx.size(), 0.0), vo = values(ordinals),
                          vp = values(positions);
            Doubles want(vx.size()), want_db = db0;
            for (I t = 0; t < c.rows; ++t)
              for (I i = 0; i < c.n; ++i) {
                const double keep = hidden_keep(c, vo[z(t)], vp[z(t)], i);
                const std::size_t at = z(t * c.n + i);
                want[at] = backward ? keep * vx[at] : vr[at] + keep * (vx[at] + vb[z(i)]);
                want_db[z(i)] += keep * vx[at];
              }
            p.cost = {0, 3.0 * static_cast<double>(out.bytes())};
            if (backward) {
              p.run = [=](Stream& st) { ops::bias_dropout_add_backward(st, {x, out, db, drop}); };
              p.outputs = {{"dx", out, want, tolerance(c.dtype)},
                           {"dbias", db, want_db, 3 * tolerance(c.dtype) / (1 - c.p) + 1e-5}};
            } else {
              p.run = [=](Stream& st) { ops::bias_dropout_add_forward(st, {x, bias, residual, out, drop}); };
              p.outputs = {{"out", out, want, tolerance(c.dtype)}};
            }
            return p;
          }};
}

inline std::vector<OpCase> bias_dropout_add_cases() {
  std::vector<OpCase> out;
  for (bool backward : {false, true}) {
    out.push_back(bias_dropout_add_case({3, 37, DType::f32, 0, 0, true, true}, backward));
    out.push_back(bias_dropout_add_case({200, 300, DType::bf16, 0, 0, true, true}, backward));
    out.push_back(bias_dropout_add_case({5, 600, DType::f32, 0.3, 0, true, true}, backward));
    out.push_back(bias_dropout_add_case({5, 301, DType::f32, 0.1, 770, false, true}, backward));
    out.push_back(bias_dropout_add_case({9, 45, DType::bf16, 0.5, 3, true, false}, backward));
    out.push_back(bias_dropout_add_case({9, 45, DType::f16, 0.9, 1, false, false}, backward));
  }
  return out;
}

}  // namespace mt::test
