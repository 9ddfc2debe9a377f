#pragma once
// Cases of ops/activation.h.

#include "ops/activation.h"
#include "ops/op_case.h"

namespace mt::test {

struct ActivationCase {
  ops::Activation kind;
  I rows, n;
  DType dtype;
  bool gated, bias;
};

inline double act(ops::Activation kind, double x) {
  switch (kind) {
    case ops::Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ops::Activation::gelu_erf: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case ops::Activation::silu: return x / (1 + std::exp(-x));
    case ops::Activation::relu: return x > 0 ? x : 0;
    case ops::Activation::squared_relu: return x > 0 ? x * x : 0;
  }
  return 0;
}

inline Doubles activation_reference(const ActivationCase& c, const Doubles& x, const Doubles& bias) {
  const I width = c.gated ? 2 * c.n : c.n;
  Doubles y(z(c.rows * c.n));
  for (I t = 0; t < c.rows; ++t)
    for (I i = 0; i < c.n; ++i) {
      const double first = act(c.kind, x[z(t * width + i)] + bias[z(i)]);
      y[z(t * c.n + i)] = c.gated ? first * (x[z(t * width + c.n + i)] + bias[z(c.n + i)]) : first;
    }
  return y;
}

inline OpCase activation_case(const ActivationCase& c, bool backward, bool with_answer = true) {
  const std::string name =
      fmt::format("activation {} {} {}x{} {} gated {} bias {}", ops::activation_name(c.kind),
                  backward ? "backward" : "forward", c.rows, c.n, dtype_name(c.dtype), c.gated, c.bias);
  return {name, [=] {
            Prepared p;
            Data& d = *p.data;
            const I width = c.gated ? 2 * c.n : c.n;
            const View x = d.normal(c.dtype, {c.rows, width}, 2), bias = c.bias ? d.normal(c.dtype, {width}) : View();
            const View y = d.zeros(c.dtype, {c.rows, c.n}), dout = d.normal(c.dtype, {c.rows, c.n});
            const View dx = d.normal(c.dtype, {c.rows, width}), db = d.normal(DType::f32, {width});
            const Doubles vx = values(x), vb = c.bias ? values(bias) : Doubles(z(width), 0.0), vd = values(dout),
                          db0 = values(db);
            p.cost = ops::activation_cost(c.rows, c.n, c.gated, backward, ::mt::bits_of(c.dtype) / 8);
            if (!backward) {
              p.run = [=](Stream& st) { ops::activation_forward(st, {x, bias, y, c.kind, c.gated}); };
              p.outputs = {{"out", y, with_answer ? activation_reference(c, vx, vb) : Doubles{}, tolerance(c.dtype)}};
              return p;
            }
            p.run = [=](Stream& st) {
              ops::activation_backward(st, {x, bias, dout, dx, c.bias ? db : View(), c.kind, c.gated});
            };
            Doubles wx, wb;
            if (with_answer) {
              wx = differences([&](const Doubles& v) { return activation_reference(c, v, vb); }, vx, vd);
              wb = c.bias ? plus(db0,
                                 differences([&](const Doubles& v) { return activation_reference(c, vx, v); }, vb, vd))
                          : db0;
            }
            p.outputs = {{"dx", dx, wx, tolerance(c.dtype, 5e-6)}, {"dbias", db, wb, 3 * tolerance(c.dtype, 5e-6)}};
            return p;
          }};
}

inline std::vector<OpCase> activation_cases() {
  std::vector<OpCase> out;
  using A = ops::Activation;
  for (A a : {A::gelu_tanh, A::gelu_erf, A::silu, A::relu, A::squared_relu})
    for (bool backward : {false, true})
      for (bool gated : {false, true}) {
        out.push_back(activation_case({a, 3, 37, DType::f32, gated, true}, backward));
        out.push_back(activation_case({a, 2, 18, DType::bf16, gated, false}, backward));
        out.push_back(activation_case({a, 2, 21, DType::f16, gated, true}, backward));
        out.push_back(activation_case({a, 190, 333, DType::bf16, gated, true}, backward, false));
      }
  return out;
}

}  // namespace mt::test
