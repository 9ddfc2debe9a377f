#pragma once
// Cases of ops/embedding.h and ops/rotary.h.

#include "ops/embedding.h"
#include "ops/op_case.h"
#include "ops/rotary.h"

namespace mt::test {

inline OpCase embedding_case(I tokens, I hidden, I held, I first, DType dtype, bool positions, bool backward,
                             DType grad = DType::f32) {
  const std::string name =
      fmt::format("embedding {} {}x{} rows [{}, +{}) {} positions {} into {}", backward ? "backward" : "forward", tokens,
                  hidden, first, held, dtype_name(dtype), positions, dtype_name(grad));
  return {
      name, [=] {
        Prepared p;
        Data& d = *p.data;
        const View ids = d.integers(DType::i32, {tokens}, 0, 2 * held), at = d.integers(DType::i32, {tokens}, 0, 11);
        const View weight = d.normal(dtype, {held, hidden}), table = d.normal(dtype, {11, hidden});
        const View out = d.zeros(dtype, {tokens, hidden}), dout = d.normal(dtype, {tokens, hidden}),
                   dw = d.normal(grad, {held, hidden});
        const Doubles vi = values(ids), va = values(at), vw = values(weight), vt = values(table), vd = values(dout);
        Doubles want(z(tokens * hidden)), want_dw = values(dw);
        for (I t = 0; t < tokens; ++t)
          for (I i = 0; i < hidden; ++i) {
            const I row = static_cast<I>(vi[z(t)]) - first;
            const bool here = row >= 0 && row < held;
            want[z(t * hidden + i)] =
                (here ? vw[z(row * hidden + i)] : 0) + (positions ? vt[z(static_cast<I>(va[z(t)]) * hidden + i)] : 0);
            if (here) want_dw[z(row * hidden + i)] += vd[z(t * hidden + i)];
          }
        p.cost = ops::embedding_cost(tokens, hidden, ::mt::bits_of(dtype) / 8);
        if (backward) {
          p.run = [=](Stream& st) { ops::embedding_backward(st, {ids, dout, dw, first}); };
          p.outputs = {{"dweight", dw, want_dw, tolerance(grad, 1e-5)}};
        } else {
          p.run = [=](Stream& st) {
            ops::embedding_forward(st, {ids, weight, out, first, positions ? table : View(), positions ? at : View()});
          };
          p.outputs = {{"out", out, want, tolerance(dtype)}};
        }
        return p;
      }};
}

inline std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> out;
  // Each row takes many tokens: its sum is rounded once.
  out.push_back(embedding_case(900, 70, 7, 3, DType::bf16, false, true, DType::bf16));
  for (bool backward : {false, true})
    for (DType t : {DType::f32, DType::bf16, DType::f16}) {
      out.push_back(embedding_case(200, 70, 30, 0, t, true, backward));
      out.push_back(embedding_case(64, 129, 20, 17, t, false, backward));
    }
  return out;
}

inline OpCase rotary_case(I tokens, I heads, I dim, I r, DType dtype, bool interleaved, bool inverse) {
  return {fmt::format("rotary {}x{}x{} of {} {} interleaved {} inverse {}", tokens, heads, r, dim, dtype_name(dtype),
                      interleaved, inverse),
          [=] {
            Prepared p;
            Data& d = *p.data;
            ops::RotarySpec spec;
            spec.rotary_dim = r;
            const std::vector<float> host = ops::rotary_table(spec, 500);
            const View table = d.zeros(DType::f32, {500, r});
            std::memcpy(table.data, host.data(), host.size() * 4);
            const View x = d.normal(dtype, {tokens, heads + 2, dim}).slice(1, 1, heads + 1),
                       at = d.integers(DType::i32, {tokens}, 0, 500);
            const Doubles vx = values(x), va = values(at);
            Doubles want = vx;
            for (I t = 0; t < tokens; ++t)
              for (I h = 0; h < heads; ++h)
                for (I i = 0; i < r / 2; ++i) {
                  const double angle = va[z(t)] *
                                       std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(r)) *
                                       (inverse ? -1 : 1);
                  const I base = (t * heads + h) * dim, a = base + (interleaved ? 2 * i : i),
                          b = base + (interleaved ? 2 * i + 1 : i + r / 2);
                  want[z(a)] = vx[z(a)] * std::cos(angle) - vx[z(b)] * std::sin(angle);
                  want[z(b)] = vx[z(b)] * std::cos(angle) + vx[z(a)] * std::sin(angle);
                }
            p.cost = ops::rotary_cost(tokens, heads, r, ::mt::bits_of(dtype) / 8);
            p.run = [=](Stream& st) { ops::rotary(st, {x, at, table, interleaved, inverse}); };
            p.outputs = {{"x", x, want, tolerance(dtype, 1e-4)}};  // angles are f32: up to 500 rad
            return p;
          }};
}

inline std::vector<OpCase> rotary_cases() {
  std::vector<OpCase> out;
  for (bool interleaved : {false, true})
    for (bool inverse : {false, true}) {
      out.push_back(rotary_case(9, 3, 20, 20, DType::f32, interleaved, inverse));
      out.push_back(rotary_case(300, 4, 64, 64, DType::bf16, interleaved, inverse));
      out.push_back(rotary_case(7, 2, 24, 10, DType::f16, interleaved, inverse));
    }
  return out;
}

}  // namespace mt::test
