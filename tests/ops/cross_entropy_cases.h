#pragma once
// Cases of ops/cross_entropy.h.

#include "ops/cross_entropy.h"
#include "ops/op_case.h"

namespace mt::test {

struct LossCase {
  I rows, held, columns;
  DType dtype;
  double smoothing = 0;
};

inline Doubles loss_reference(const LossCase& c, const Doubles& logits, const Doubles& targets) {
  Doubles loss;
  const double s = c.smoothing * static_cast<double>(c.columns) / static_cast<double>(c.columns - 1);
  for (I t = 0; t < c.rows; ++t) {
    double sum = 0, mean = 0;
    for (I i = 0; i < c.columns; ++i) sum += std::exp(logits[z(t * c.held + i)]);
    for (I i = 0; i < c.columns; ++i)
      mean += (logits[z(t * c.held + i)] - std::log(sum)) / static_cast<double>(c.columns);
    const double nll = std::log(sum) - logits[z(t * c.held + static_cast<I>(targets[z(t)]))];
    loss.push_back(c.smoothing > 0 ? (1 - s) * nll - s * mean : nll);
  }
  return loss;
}

inline OpCase cross_entropy_case(const LossCase& c, bool with_answer = true) {
  return {
      fmt::format("cross_entropy {}x{} true {} {} smoothing {}", c.rows, c.held, c.columns, dtype_name(c.dtype),
                  c.smoothing),
      [=] {
        Prepared p;
        Data& d = *p.data;
        const View logits = d.normal(c.dtype, {c.rows, c.held}, 3),
                   targets = d.integers(DType::i32, {c.rows}, 0, c.columns);
        const auto row = [&] { return d.zeros(DType::f32, {c.rows}); };
        const View max = row(), sum = row(), target = row(), all = row(), loss = row(),
                   scale = d.normal(DType::f32, {c.rows});
        if (c.rows > 2) store(scale, 1, 0);
        Doubles want_loss, want_gradient;
        if (with_answer) {
          const Doubles v = values(logits), vt = values(targets), vs = values(scale);
          want_loss = loss_reference(c, v, vt);
          want_gradient = differences([&](const Doubles& x) { return loss_reference(c, x, vt); }, v, vs);
        }
        p.cost = ops::cross_entropy_cost(c.rows, c.held, ::mt::bits_of(c.dtype) / 8);
        p.run = [=](Stream& st) {
          ops::cross_entropy_max(st, {logits, c.columns, max});
          ops::cross_entropy_sum(st, {logits, c.columns, max, targets, 0, sum, target, c.smoothing > 0 ? all : View()});
          ops::cross_entropy_loss(st, {logits, c.columns, max, sum, target, all, targets, 0, loss, scale, true,
                                       static_cast<float>(c.smoothing), c.columns});
        };
        p.outputs = {{"loss", loss, want_loss, 1e-5}, {"gradient", logits, want_gradient, tolerance(c.dtype, 1e-5)}};
        return p;
      }};
}

inline std::vector<OpCase> cross_entropy_cases() {
  return {cross_entropy_case({5, 40, 37, DType::f32}), cross_entropy_case({3, 33, 33, DType::bf16}),
          cross_entropy_case({3, 20, 17, DType::f32, 0.1}), cross_entropy_case({3, 20, 20, DType::f16}),
          cross_entropy_case({9, 10003, 9999, DType::bf16, 0.1}, false)};
}

}  // namespace mt::test
