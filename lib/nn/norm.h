#pragma once
// The norm at the head of a sub-layer, of either kind, with its saved statistics.
//
// Code: nn/norm.cc. Tests: tests/nn/.

#include "layout/model_spec.h"
#include "nn/sub_layer.h"

namespace mt {

struct Norm {
  NormSpec spec;
  int weight = -1, bias = -1;             // parameters; bias −1 for RMSNorm
  int x = -1, normed = -1, mean = -1, rstd = -1;  // members of the saved table
};

// `prefix` names the parameters: prefix.weight, prefix.bias. The layer's saved table must hold x, normed, rstd (mean).
Norm make_norm(const ParameterStore& params, const SubLayer& layer, const NormSpec& spec, const std::string& prefix);

// saved.normed = norm(saved.x)
void norm_forward(Ctx& ctx, const Norm& norm, Saved& saved);
// dx = gradient of the norm at dnormed, plus dresidual (the skip connection; may be absent). Weight gradients
// accumulate here, not in backward_weight: they need dnormed, which is not kept.
void norm_backward(Ctx& ctx, const Norm& norm, const Saved& saved, View dnormed, View dresidual, View dx);

}  // namespace mt
