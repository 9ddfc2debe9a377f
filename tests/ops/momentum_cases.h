#pragma once
// Cases of ops/momentum.h.

#include "ops/momentum.h"
#include "ops/op_case.h"

namespace mt::test {

// Master weights, a momentum and a gradient with the scalars of a step, and their values.
struct MomentumData {
  View w, m, g, copy, now;
  Doubles ww, wm, vg;
  MomentumData(Data& d, I n, DType grad, DType model)
      : w(d.normal(DType::f32, {n})),
        m(d.normal(DType::f32, {n}, 0.1)),
        g(d.normal(grad, {n})),
        copy(model == DType::f32 ? View() : d.zeros(model, {n})),
        now(d.zeros(DType::f32, {5})),
        ww(values(w)),
        wm(values(m)),
        vg(values(g)) {
    *static_cast<ops::AdamwScalars*>(now.data) = {0.01f, 0.25f, 0, 0, 0};
  }
  const ops::AdamwScalars* scalars() const { return static_cast<const ops::AdamwScalars*>(now.data); }
};

inline OpCase sgd_case(I n, DType grad, DType model, float momentum, float decay) {
  return {fmt::format("sgd {} grad {} model {} momentum {}", n, dtype_name(grad), dtype_name(model), momentum), [=] {
            Prepared p;
            MomentumData d(*p.data, n, grad, model);
            const double lr = static_cast<double>(0.01f), mu = static_cast<double>(momentum);
            for (std::size_t i = 0; i < d.vg.size(); ++i) {
              d.wm[i] = mu * d.wm[i] + d.vg[i] * 0.25 + static_cast<double>(decay) * d.ww[i];
              if (momentum == 0) d.wm[i] = d.vg[i] * 0.25 + static_cast<double>(decay) * d.ww[i];
              d.ww[i] -= lr * d.wm[i];
            }
            p.cost = ops::sgd_cost(n, momentum != 0, model == DType::f32 ? 0 : 2);
            p.run = [d, momentum, decay](Stream& st) {
              ops::sgd(st, {d.w, momentum != 0 ? d.m : View(), d.g, d.copy, d.scalars(), momentum, decay});
            };
            p.outputs = {{"master", d.w, d.ww, 1e-6}};
            if (momentum != 0) p.outputs.push_back({"momentum", d.m, d.wm, 1e-6});
            if (d.copy) p.outputs.push_back({"model", d.copy, d.ww, tolerance(model)});
            return p;
          }};
}

inline OpCase lion_case(I n, DType grad, DType model, float decay) {
  return {fmt::format("lion {} grad {} model {}", n, dtype_name(grad), dtype_name(model)), [=] {
            Prepared p;
            MomentumData d(*p.data, n, grad, model);
            const double lr = static_cast<double>(0.01f), b1 = static_cast<double>(0.9f), b2 = static_cast<double>(0.98f);
            for (std::size_t i = 0; i < d.vg.size(); ++i) {
              const double x = d.vg[i] * 0.25, c = b1 * d.wm[i] + (1 - b1) * x;
              d.ww[i] = d.ww[i] * (1 - lr * static_cast<double>(decay)) - lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
              d.wm[i] = b2 * d.wm[i] + (1 - b2) * x;
            }
            p.cost = ops::lion_cost(n, model == DType::f32 ? 0 : 2);
            p.run = [d, decay](Stream& st) { ops::lion(st, {d.w, d.m, d.g, d.copy, d.scalars(), 0.9f, 0.98f, decay}); };
            p.outputs = {{"master", d.w, d.ww, 1e-6}, {"exp_avg", d.m, d.wm, 1e-6}};
            if (d.copy) p.outputs.push_back({"model", d.copy, d.ww, tolerance(model)});
            return p;
          }};
}

inline OpCase muon_momentum_case(I n, DType grad, bool nesterov) {
  return {fmt::format("muon momentum {} grad {}{}", n, dtype_name(grad), nesterov ? " nesterov" : ""), [=] {
            Prepared p;
            MomentumData d(*p.data, n, grad, DType::f32);
            const View out = p.data->zeros(DType::f32, {n});
            Doubles wo(d.vg.size());
            const double mu = static_cast<double>(0.9f);
            for (std::size_t i = 0; i < d.vg.size(); ++i) {
              const double x = d.vg[i] * 0.25;
              d.wm[i] = mu * d.wm[i] + (1 - mu) * x;
              wo[i] = nesterov ? mu * d.wm[i] + (1 - mu) * x : d.wm[i];
            }
            p.cost = ops::muon_momentum_cost(n);
            p.run = [=](Stream& st) { ops::muon_momentum(st, {d.m, d.g, out, d.scalars(), 0.9f, nesterov}); };
            p.outputs = {{"momentum", d.m, d.wm, 1e-6}, {"out", out, wo, 1e-6}};
            return p;
          }};
}

inline std::vector<OpCase> momentum_cases() {
  return {sgd_case(5, DType::f32, DType::f32, 0.9f, 0.1f),      sgd_case(3001, DType::f32, DType::bf16, 0.5f, 0.01f),
          sgd_case(300001, DType::bf16, DType::f16, 0, 0.1f),   lion_case(7, DType::f32, DType::f32, 0),
          lion_case(300001, DType::bf16, DType::bf16, 0.1f),    lion_case(77, DType::f32, DType::f16, 0.01f),
          muon_momentum_case(300001, DType::f32, false),        muon_momentum_case(3001, DType::bf16, true)};
}

}  // namespace mt::test
