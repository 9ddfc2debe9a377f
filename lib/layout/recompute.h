#pragma once
// Activation recompute: which saved tensors of a unit are not kept from its forward, and are made again before its
// backward.
//
//   group  with full recompute, layers of one chunk of which only the first's input is kept; they are made again together
//          (layout/parallel_spec.h says how they are cut); embedding and head are never part of one
// Selective: core_attn drops the context and its log-sum-exp; mlp all between the norm and fc2; mlp_act the activated
// fc1 alone; layernorm the normed input of attention and feed-forward rows. Values are those of the first forward, bit
// for bit: random numbers are a function of position. Source: Korthikanti et al. 2022; flags as Megatron's.
// Code: layout/recompute.cc. Tests: tests/layout/recompute_test.cc, and nn's and engine's use.

#include "layout/param_spec.h"

namespace mt {

// What a row makes again; all false when nothing is.
struct RowRecompute {
  bool input = false;   // x: the row before it in its group makes it
  bool norm = false;    // normed, and with `input` its statistics
  bool inner = false;   // the product after the norm: qkv, fc1
  bool middle = false;  // what follows: context and log-sum-exp, activated
  bool output = false;  // y, for the row behind it in its group
  bool shard_input = false;  // x is kept as this tp rank's share of its elements
  bool any() const { return norm || inner || middle; }
};

// needs  unit 1+i of a row; others recompute nothing
RowRecompute row_recompute(const ModelSpec& model, const ParallelSpec& parallel, int unit);

}  // namespace mt
