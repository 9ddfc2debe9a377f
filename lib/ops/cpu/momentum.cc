// Memory moves more slowly than these loops at any vector width, so they are compiled once, for every machine.
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

constexpr Count kBlock = 2048;          // elements of the streams that stay in the nearest cache
constexpr Count kThreadBlock = 131072;  // elements a thread takes

template <class F>
void each_block(const Stream& stream, Count n, const F& f) {
  parallel_ranges(stream, n, kThreadBlock, [&](Count lo, Count hi) {
    const Scratch s(kBlock);
    for (Count i = lo; i < hi; i += kBlock) f(i, hi - i < kBlock ? hi - i : kBlock, s.at(0));
  });
}

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

}  // namespace

void sgd(const Stream& stream, const SgdArgs& g) {
  const AdamwScalars now = *g.scalars;
  if (now.skip != 0) return;
  float *const master = g.master.as<float>(), *const momentum = g.momentum ? g.momentum.as<float>() : nullptr;
  each_block(stream, g.master.size(), [&](Count at, Count n, float* scratch) {
    const float* grad = read(g.grad.dtype, element(g.grad, at), n, scratch);
    float* w = master + at;
    if (momentum != nullptr) {
      float* b = momentum + at;
      for (Count i = 0; i < n; ++i) {
        b[i] = b[i] * g.momentum_factor + (grad[i] * now.grad_scale + w[i] * g.weight_decay);
        w[i] -= now.lr * b[i];
      }
    } else {
      for (Count i = 0; i < n; ++i) w[i] -= now.lr * (grad[i] * now.grad_scale + w[i] * g.weight_decay);
    }
    if (g.model) from_f32(g.model.dtype, w, element(g.model, at), n);
  });
}

void lion(const Stream& stream, const LionArgs& g) {
  const AdamwScalars now = *g.scalars;
  if (now.skip != 0) return;
  float *const master = g.master.as<float>(), *const exp_avg = g.exp_avg.as<float>();
  const float keep = 1 - now.lr * g.weight_decay, a1 = 1 - g.beta1, a2 = 1 - g.beta2;
  each_block(stream, g.master.size(), [&](Count at, Count n, float* scratch) {
    const float* grad = read(g.grad.dtype, element(g.grad, at), n, scratch);
    float *w = master + at, *m = exp_avg + at;
    for (Count i = 0; i < n; ++i) {
      const float x = grad[i] * now.grad_scale;
      w[i] = w[i] * keep - now.lr * sign(m[i] * g.beta1 + x * a1);
      m[i] = m[i] * g.beta2 + x * a2;
    }
    if (g.model) from_f32(g.model.dtype, w, element(g.model, at), n);
  });
}

void muon_momentum(const Stream& stream, const MuonMomentumArgs& g) {
  const AdamwScalars now = *g.scalars;
  if (now.skip != 0) return;
  float *const momentum = g.momentum.as<float>(), *const out = g.out.as<float>();
  const float keep = g.momentum_factor, take = 1 - g.momentum_factor;
  each_block(stream, g.momentum.size(), [&](Count at, Count n, float* scratch) {
    const float* grad = read(g.grad.dtype, element(g.grad, at), n, scratch);
    float *b = momentum + at, *o = out + at;
    for (Count i = 0; i < n; ++i) {
      const float x = grad[i] * now.grad_scale;
      b[i] = b[i] * keep + x * take;
      o[i] = g.nesterov ? b[i] * keep + x * take : b[i];
    }
  });
}

}  // namespace mt::ops::cpu
