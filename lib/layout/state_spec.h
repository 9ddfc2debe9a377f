#pragma once
// What a run keeps of every parameter beside its weights, and in which dtype: one table for optim, ckpt, plan and engine.
//
//   rule   who updates: AdamW; SGD with momentum; Lion; or Muon, which takes the matrices of the layers and leaves the
//          rest (embeddings, output layer, norms, biases) to AdamW
//   kind   the word a checkpoint stores it under: "exp_avg", "exp_avg_sq", "momentum_buffer", as PyTorch names them
// Master weights are f32 and there when the model is not f32 itself. Pure functions.
// Code: layout/state_spec.cc. Tests: tests/layout/state_spec_test.cc.

#include <string>
#include <vector>

#include "base/dtype.h"
#include "layout/param_spec.h"

namespace mt {

enum class UpdateRule : std::uint8_t { adam, sgd, lion, muon };

// "adam", "sgd", "lion", "muon".   fails  Error{usage} listing the names
const char* update_rule_name(UpdateRule rule);
UpdateRule parse_update_rule(const std::string& name);

struct StateSpec {
  DType compute = DType::f32;  // of weights and activations
  DType grads = DType::f32;    // as they are accumulated, sent and read by the optimizer
  UpdateRule rule = UpdateRule::adam;
  DType exp_avg = DType::f32, exp_avg_sq = DType::f32;  // AdamW's moments, alone: f32, bf16, f16 or e4m3
  bool momentum = true;  // SGD keeps one
  bool muon_whole = true, muon_split_qkv = true;  // layout/muon_matrices.h
  double on_host = 0;  // share of it that lies in host memory, of a run on an accelerator (layout/host_state.h)
  StateSpec() = default;
  // AdamW over weights of this dtype.
  StateSpec(DType weights) : compute(weights) {}  // NOLINT: a dtype alone is the usual case
  bool own_master() const { return compute != DType::f32; }
};

// The rule's name in checkpoints: as above, and "sgd without momentum".
std::string state_name(const StateSpec& state);

struct StateKind {
  const char* kind;
  DType dtype;
};

// A matrix of a layer, which Muon updates whole: two-dimensional, neither embedding nor output layer.
bool is_layer_matrix(const ParamSpec& spec);

// A moment of this dtype is stored divided by a scale (optim/moment_scales.h), which a checkpoint holds as one f32 of the
// tensor's name and kind scale_kind(kind).
bool is_scaled(DType moment);
std::string scale_kind(const std::string& kind);
// Kinds of scales that the spec's parameters have.
std::vector<std::string> scale_kinds(const StateSpec& state);

// What the rule keeps of a parameter, in the order it is laid out; master weights are not among it. May be empty.
std::vector<StateKind> state_kinds(const StateSpec& state, const ParamSpec& spec);

}  // namespace mt
