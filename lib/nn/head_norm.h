#pragma once
// RMSNorm of every head of queries and keys, behind their product and before they rotate:  q̂ = q · rstd(q) · w, one w for
// all heads of q and one for those of k.
//
//   T  tokens   H  query heads here   G  key heads here   D  head dim
// The norms replace q and k in the fused row [q | k | v]; what they were stays in the saved member "qk" for backward. On a
// tensor-parallel rank the gradient of w is of its heads alone (layout/param_spec.h sums it over tp).
// Code: nn/head_norm.cc. Tests: tests/nn/oracle_test.cc (qwen3).

#include "layout/model_spec.h"
#include "nn/sub_layer.h"

namespace mt {

struct HeadNorm {
  int q_weight = -1, k_weight = -1;  // parameters; −1: no norm
  int qk = -1, rstd = -1;            // members of the saved table: [T, (H + G)·D], f32 [H + G, T]
  float epsilon = 0;
  bool on() const { return q_weight >= 0; }
};

// None where the row has none.   needs  the layer's saved table holds qk and qk_rstd where it has
HeadNorm make_head_norm(const ParameterStore& params, const SubLayer& layer, const Row& row);

// fused  [T, (H + 2G)·D]; its first (H + G)·D columns are saved, then normed in place.   cost  4·T·(H + G)·D elements moved
void head_norm_forward(Ctx& ctx, const HeadNorm& norm, const AttentionSpec& spec, View fused, Saved& saved);
// dfused  gradient at the normed row, becomes the one at the product; gradients of the weights accumulate.
//   cost  6·T·(H + G)·D elements moved
void head_norm_backward(Ctx& ctx, const HeadNorm& norm, const AttentionSpec& spec, View dfused, const Saved& saved);

}  // namespace mt
