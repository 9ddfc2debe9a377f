#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"

namespace mt::ops::cuda {

namespace {

struct Sgd {
  Elements master, momentum, grad, model;
  const AdamwScalars* scalars;
  float factor, decay;
  __device__ void operator()(Count, Count at, int count) const {
    const AdamwScalars now = *scalars;
    if (now.skip != 0) return;
    float w[kGroup], g[kGroup], b[kGroup];
    load(master, 0, at, count, w);
    load(grad, 0, at, count, g);
    if (momentum.data != nullptr) {
      load(momentum, 0, at, count, b);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        b[i] = b[i] * factor + (g[i] * now.grad_scale + w[i] * decay);
        w[i] -= now.lr * b[i];
      }
      store(momentum, 0, at, count, b);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) w[i] -= now.lr * (g[i] * now.grad_scale + w[i] * decay);
    }
    store(master, 0, at, count, w);
    if (model.data != nullptr) store(model, 0, at, count, w);
  }
};

struct Lion {
  Elements master, exp_avg, grad, model;
  const AdamwScalars* scalars;
  float beta1, beta2, decay;
  __device__ void operator()(Count, Count at, int count) const {
    const AdamwScalars now = *scalars;
    if (now.skip != 0) return;
    const float keep = 1 - now.lr * decay, a1 = 1 - beta1, a2 = 1 - beta2;
    float w[kGroup], m[kGroup], g[kGroup];
    load(master, 0, at, count, w);
    load(exp_avg, 0, at, count, m);
    load(grad, 0, at, count, g);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float x = g[i] * now.grad_scale, towards = m[i] * beta1 + x * a1;
      const float sign = static_cast<float>((towards > 0) - (towards < 0));
      w[i] = w[i] * keep - now.lr * sign;
      m[i] = m[i] * beta2 + x * a2;
    }
    store(master, 0, at, count, w);
    store(exp_avg, 0, at, count, m);
    if (model.data != nullptr) store(model, 0, at, count, w);
  }
};

struct MuonMomentum {
  Elements momentum, grad, out;
  const AdamwScalars* scalars;
  float keep, take;
  int nesterov;
  __device__ void operator()(Count, Count at, int count) const {
    const AdamwScalars now = *scalars;
    if (now.skip != 0) return;
    float b[kGroup], g[kGroup], o[kGroup];
    load(momentum, 0, at, count, b);
    load(grad, 0, at, count, g);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float x = g[i] * now.grad_scale;
      b[i] = b[i] * keep + x * take;
      o[i] = nesterov ? b[i] * keep + x * take : b[i];
    }
    store(momentum, 0, at, count, b);
    store(out, 0, at, count, o);
  }
};

}  // namespace

void sgd(const Stream& stream, const SgdArgs& g) {
  each_group(
      stream, 1, g.master.size(),
      Sgd{flat(g.master), flat(g.momentum), flat(g.grad), flat(g.model), g.scalars, g.momentum_factor, g.weight_decay});
}

void lion(const Stream& stream, const LionArgs& g) {
  each_group(
      stream, 1, g.master.size(),
      Lion{flat(g.master), flat(g.exp_avg), flat(g.grad), flat(g.model), g.scalars, g.beta1, g.beta2, g.weight_decay});
}

void muon_momentum(const Stream& stream, const MuonMomentumArgs& g) {
  each_group(stream, 1, g.momentum.size(),
             MuonMomentum{flat(g.momentum), flat(g.grad), flat(g.out), g.scalars, g.momentum_factor,
                          1 - g.momentum_factor, g.nesterov});
}

}  // namespace mt::ops::cuda
