#pragma once
// Self-attention as a sub-layer:  y = x + dropout(proj(attention(rotary(qkv(norm(x)))))), heads of q and k normed before
// they rotate where the row says so (nn/head_norm.h).
//
//   H  heads here (heads/tp)    G  key/value heads here (max(1, kv_heads/tp))    D  head dim
// qkv is one column-parallel product of width (H + 2G)·D, columns [q | k | v]; proj is row parallel. With fewer
// key/value heads than tp, tp/kv_heads ranks hold the same head and its gradients are summed over them (Axis::kv).
// Code: nn/attention_layer.cc. Tests: tests/nn/.

#include "layout/model_spec.h"
#include "nn/sub_layer.h"

namespace mt {

// rotary_table: f32 [positions, R] on the device, absent without rotary positions; must outlive the sub-layer.
SubLayer attention_layer(const ParameterStore& params, const Row& row, int unit, const SavedTable& saved,
                         View rotary_table);

}  // namespace mt
