#pragma once
// Cases of ops/rms_norm.h and ops/layer_norm.h.

#include "ops/layer_norm.h"
#include "ops/op_case.h"
#include "ops/rms_norm.h"

namespace mt::test {

struct NormShape {
  I rows, columns;
  DType x, weight;
  bool layer, one_plus, residual;
  I pad = 0;
};

// y of all rows, in double.
inline Doubles norm_reference(const NormShape& s, double epsilon, const Doubles& x, const Doubles& w,
                              const Doubles& b) {
  Doubles y(x.size());
  for (I t = 0; t < s.rows; ++t) {
    double mean = 0, square = 0;
    for (I i = 0; i < s.columns; ++i) mean += x[z(t * s.columns + i)] / static_cast<double>(s.columns);
    if (!s.layer) mean = 0;
    for (I i = 0; i < s.columns; ++i)
      square += std::pow(x[z(t * s.columns + i)] - mean, 2) / static_cast<double>(s.columns);
    for (I i = 0; i < s.columns; ++i)
      y[z(t * s.columns + i)] =
          (x[z(t * s.columns + i)] - mean) / std::sqrt(square + epsilon) * (w[z(i)] + s.one_plus) +
          (s.layer ? b[z(i)] : 0);
  }
  return y;
}

struct NormInputs {
  View x, w, b, dout, residual;
  Doubles vx, vw, vb, vd, vr;
  NormInputs(Data& d, const NormShape& s)
      : x(d.normal(s.x, {s.rows, s.columns + s.pad}).slice(1, 0, s.columns)),
        w(d.normal(s.weight, {s.columns})),
        b(d.normal(s.weight, {s.columns})),
        dout(d.normal(s.x, {s.rows, s.columns})),
        residual(d.normal(s.x, {s.rows, s.columns})),
        vx(values(x)),
        vw(values(w)),
        vb(values(b)),
        vd(values(dout)),
        vr(values(residual)) {}
};

inline std::string norm_name(const NormShape& s, const char* pass) {
  return fmt::format("{} {} {}x{} {} weight {} one_plus {} residual {}", s.layer ? "layer_norm" : "rms_norm", pass,
                     s.rows, s.columns, dtype_name(s.x), dtype_name(s.weight), s.one_plus, s.residual);
}

inline OpCase norm_forward_case(const NormShape& s) {
  return {norm_name(s, "forward"), [s] {
            Prepared p;
            Data& d = *p.data;
            const NormInputs in(d, s);
            const View y = d.zeros(s.x, {s.rows, s.columns}), mean = d.zeros(DType::f32, {s.rows}),
                       rstd = d.zeros(DType::f32, {s.rows});
            if (s.layer)
              p.run = [=](Stream& st) {
                ops::layer_norm_forward(st, {in.x, in.w, in.b, y, mean, rstd, 1e-3f, s.one_plus});
              };
            else p.run = [=](Stream& st) { ops::rms_norm_forward(st, {in.x, in.w, y, rstd, 1e-3f, s.one_plus}); };
            p.cost = ops::norm_cost(s.rows, s.columns, ::mt::bits_of(s.x) / 8, false);
            p.outputs = {{"y", y, norm_reference(s, static_cast<double>(1e-3f), in.vx, in.vw, in.vb), tolerance(s.x)},
                         {"rstd", rstd, {}, 0},
                         {"mean", mean, {}, 0}};
            return p;
          }};
}

inline OpCase norm_backward_case(const NormShape& s, bool with_answer = true, DType grad = DType::f32) {
  return {norm_name(s, "backward") + " into " + std::string(dtype_name(grad)), [s, with_answer, grad] {
            Prepared p;
            Data& d = *p.data;
            const NormInputs in(d, s);
            const double eps = static_cast<double>(1e-3f);
            const View y = d.zeros(s.x, {s.rows, s.columns}), mean = d.zeros(DType::f32, {s.rows}),
                       rstd = d.zeros(DType::f32, {s.rows}), dx = d.zeros(s.x, {s.rows, s.columns});
            const View dw = d.normal(grad, {s.columns}), db = d.normal(grad, {s.columns});
            const View more = s.residual ? in.residual : View();
            const Doubles dw0 = values(dw), db0 = values(db);
            Stream first;
            if (s.layer) {
              ops::layer_norm_forward(first, {in.x, in.w, in.b, y, mean, rstd, 1e-3f, s.one_plus});
              p.run = [=](Stream& st) {
                ops::layer_norm_backward(st, {in.dout, in.x, in.w, mean, rstd, more, dx, dw, db, s.one_plus});
              };
            } else {
              ops::rms_norm_forward(first, {in.x, in.w, y, rstd, 1e-3f, s.one_plus});
              p.run = [=](Stream& st) {
                ops::rms_norm_backward(st, {in.dout, in.x, in.w, rstd, more, dx, dw, s.one_plus});
              };
            }
            p.cost = ops::norm_cost(s.rows, s.columns, ::mt::bits_of(s.x) / 8, true);
            Doubles wx, ww, wb;
            if (with_answer) {
              wx = differences([&](const Doubles& v) { return norm_reference(s, eps, v, in.vw, in.vb); }, in.vx, in.vd);
              if (s.residual) wx = plus(wx, in.vr);
              ww = plus(dw0, differences([&](const Doubles& v) { return norm_reference(s, eps, in.vx, v, in.vb); },
                                         in.vw, in.vd));
              wb = s.layer ? plus(db0,
                                  differences([&](const Doubles& v) { return norm_reference(s, eps, in.vx, in.vw, v); },
                                              in.vb, in.vd))
                           : db0;
            }
            p.outputs = {{"dx", dx, wx, tolerance(s.x, 1e-5)}, {"dweight", dw, ww, tolerance(grad, 2e-5)},
                         {"dbias", db, wb, tolerance(grad, 2e-5)}};
            return p;
          }};
}

inline std::vector<OpCase> norm_cases() {
  std::vector<OpCase> out;
  for (bool layer : {false, true}) {
    for (I columns : {1, 16, 37, 300})
      out.push_back(norm_forward_case({5, columns, DType::f32, DType::f32, layer, false, false, 3}));
    for (I columns : {512, 1000, 2100, 9003})
      out.push_back(norm_forward_case({3, columns, DType::bf16, DType::f32, layer, false, false, 1}));
    out.push_back(norm_backward_case({1, 1300, DType::f32, DType::f32, layer, false, true}));
    out.push_back(norm_forward_case({300, 70, DType::bf16, DType::bf16, layer, true, false}));
    out.push_back(norm_forward_case({7, 70, DType::f16, DType::f32, layer, true, false}));
    out.push_back(norm_backward_case({4, 21, DType::f32, DType::f32, layer, false, false, 2}));
    out.push_back(norm_backward_case({5, 33, DType::f32, DType::f32, layer, true, true}));
    out.push_back(norm_backward_case({3, 19, DType::bf16, DType::bf16, layer, false, true}));
    out.push_back(norm_backward_case({3, 300, DType::bf16, DType::bf16, layer, false, true}, true, DType::bf16));
    out.push_back(norm_backward_case({700, 300, DType::bf16, DType::f32, layer, false, true}, false));
  }
  return out;
}

}  // namespace mt::test
