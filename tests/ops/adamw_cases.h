#pragma once
// Cases of ops/adamw.h and ops/sum_squares.h.

#include "ops/adamw.h"
#include "ops/op_case.h"
#include "ops/sum_squares.h"

namespace mt::test {

inline OpCase adamw_case(I n, DType grad, DType model, float decay) {
  return {fmt::format("adamw {} grad {} model {} decay {}", n, dtype_name(grad), dtype_name(model), decay), [=] {
            Prepared p;
            Data& d = *p.data;
            const View w = d.normal(DType::f32, {n}), m = d.normal(DType::f32, {n}, 0.1),
                       v = d.normal(DType::f32, {n}, 0.1), g = d.normal(grad, {n});
            for (I i = 0; i < n; ++i) store(v, i, std::abs(load(v, i)));
            const View copy = model == DType::f32 ? View() : d.zeros(model, {n}), now = d.zeros(DType::f32, {5});
            const float c1 = ops::adamw_bias_correction(0.9f, 7), c2 = ops::adamw_bias_correction(0.95f, 7);
            *static_cast<ops::AdamwScalars*>(now.data) = {0.01f, 0.25f, c1, c2, 0};
            Doubles ww = values(w), wm = values(m), wv = values(v);
            const Doubles vg = values(g);
            const double b1 = static_cast<double>(0.9f), b2 = static_cast<double>(0.95f),
                         lr = static_cast<double>(0.01f) * 0.5;
            for (std::size_t i = 0; i < vg.size(); ++i) {
              const double x = vg[i] * 0.25;
              wm[i] = b1 * wm[i] + (1 - b1) * x;
              wv[i] = b2 * wv[i] + (1 - b2) * x * x;
              const double mh = wm[i] / (1 - std::pow(b1, 7)), vh = wv[i] / (1 - std::pow(b2, 7));
              ww[i] = ww[i] * (1 - lr * static_cast<double>(decay)) - lr * mh / (std::sqrt(vh) + 1e-6);
            }
            p.cost = ops::adamw_cost(n, model == DType::f32 ? 0 : 2);
            p.run = [=](Stream& st) {
              ops::adamw(st, {w, m, v, g, copy, static_cast<const ops::AdamwScalars*>(now.data), 0.5f, 0.9f, 0.95f,
                              1e-6f, decay});
            };
            p.outputs = {{"master", w, ww, 1e-6}, {"exp_avg", m, wm, 1e-6}, {"exp_avg_sq", v, wv, 1e-6}};
            if (copy) p.outputs.push_back({"model", copy, ww, tolerance(model)});
            return p;
          }};
}

inline std::vector<OpCase> adamw_cases() {
  return {adamw_case(5, DType::f32, DType::f32, 0), adamw_case(3000, DType::f32, DType::bf16, 0.1f),
          adamw_case(300001, DType::bf16, DType::bf16, 0.1f), adamw_case(77, DType::f32, DType::f16, 0.01f)};
}

}  // namespace mt::test
