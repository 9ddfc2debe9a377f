#pragma once
// The feed-forward network as a sub-layer:  y = x + dropout(fc2(act(fc1(norm(x))))).
//
//   F  ffn width here (ffn_hidden/tp)    fc1 column parallel [F or 2F = gate | up], fc2 row parallel
// Code: nn/mlp.cc. Tests: tests/nn/.

#include "layout/model_spec.h"
#include "nn/sub_layer.h"

namespace mt {

SubLayer mlp(const ParameterStore& params, const Row& row, int unit, const SavedTable& saved);

}  // namespace mt
