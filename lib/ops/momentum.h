#pragma once
// Update rules that keep one momentum, over a flat range of parameters, fused with the rounding to the model's dtype.
//
//   g = grad·grad_scale    w  master weight    lr, grad_scale  of AdamwScalars, whose other fields are not read here
//   sgd            d = g + decay·w;  b = μ·b + d (without momentum b = d);  w = w − lr·b
//   lion           w = w·(1 − lr·decay) − lr·sign(β1·m + (1−β1)·g);  m = β2·m + (1−β2)·g
//   muon_momentum  b = μ·b + (1−μ)·g;  out = b, with Nesterov out = μ·b + (1−μ)·g; no weight changes
// Element by element in f32, so any cut of the range gives the same bits. Sources: torch.optim.SGD; Chen et al.,
// arXiv:2302.06675; Jordan et al., "Muon", with the averaging momentum of NVIDIA's Emerging-Optimizers.
// Code: ops/momentum.cc, ops/cpu/momentum.cc. Tests: tests/ops/momentum_test.cc.

#include "ops/adamw.h"

namespace mt::ops {

struct SgdArgs {
  View master;    // f32 [n], updated
  View momentum;  // f32 [n], updated; absent: none is kept
  View grad;      // any float [n]
  View model;     // [n] in the model's dtype, written with the rounded master; absent for f32 models
  const AdamwScalars* scalars = nullptr;  // device memory
  float momentum_factor = 0.9f, weight_decay = 0;
};
// needs  all contiguous and of equal size   cost  20 bytes an element with momentum, 12 without; 2 more with a bf16 copy
void sgd(Stream& stream, const SgdArgs& args);
Cost sgd_cost(std::int64_t count, bool momentum, int model_bytes);

struct LionArgs {
  View master, exp_avg;  // f32 [n], updated
  View grad;             // any float [n]
  View model;            // as above
  const AdamwScalars* scalars = nullptr;
  float beta1 = 0.95f, beta2 = 0.98f, weight_decay = 0;
};
// needs  as sgd   cost  20 bytes an element (22 with a bf16 copy)
void lion(Stream& stream, const LionArgs& args);
Cost lion_cost(std::int64_t count, int model_bytes);

struct MuonMomentumArgs {
  View momentum;  // f32 [n], updated
  View grad;      // any float [n]
  View out;       // f32 [n], written
  const AdamwScalars* scalars = nullptr;
  float momentum_factor = 0.9f;
  bool nesterov = false;
};
// needs  as sgd   cost  16 bytes an element
void muon_momentum(Stream& stream, const MuonMomentumArgs& args);
Cost muon_momentum_cost(std::int64_t count);

}  // namespace mt::ops
