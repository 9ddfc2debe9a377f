#pragma once
// What fp8 products remember: from step to step the largest magnitudes of operands, for delayed scaling; from micro-batch
// to micro-batch the rounded copies of weights.
//
//   product  two a row: 0 its input product (qkv, fc1), 1 its output product (proj, fc2)
//   operand  x, weight, dy
// Every rank holds the table of the whole model, made equal at the end of each step; so a checkpoint has it once and any
// layout can go on from it. Scales move between steps only. Code: nn/fp8_state.cc. Tests: tests/nn/fp8_state_test.cc.

#include <map>

#include "comm/communicator.h"
#include "layout/model_spec.h"
#include "ops/fp8.h"
#include "tensor/tensor.h"

namespace mt {

enum class Fp8Operand : std::uint8_t { x, weight, dy };

class Fp8State {
 public:
  Fp8State(const ModelSpec& model, Device device);

  const Fp8Spec& spec() const { return spec_; }
  // f32 [1]: the magnitude this step's scale comes from, and the one being recorded.
  View used(int unit, int product, Fp8Operand operand) const { return cell(used_, unit, product, operand); }
  View seen(int unit, int product, Fp8Operand operand) const { return cell(seen_, unit, product, operand); }

  // A weight's copies, where the spec keeps them; those made since forget_weights have memory in `copies`.
  struct Weight {
    Tensor memory;  // fp8_weight_bytes (layout/fp8_spec.h)
    ops::Fp8Matrix copies;
    bool noted = false;       // its magnitude was recorded
    bool amax_known = false;  // tensorwise scaling: what lies behind the copies
  };
  //   cost  the first time, memory for it
  Weight& weight(int unit, int product, std::int64_t rows, std::int64_t columns, DType dtype);
  // Weights, or their scales, are about to change. end_step and restore do so, too.
  void forget_weights();
  std::size_t weight_bytes() const;

  // After a step: the recorded magnitudes of all ranks enter the history, the next step's are chosen, recording starts
  // anew. One that is not finite does not count. Collective; but for forgetting weights, nothing unless scaling is
  // delayed. The host reads nothing.
  //   cost  4 bytes an operand over the world
  void end_step(Stream& stream, Communicator& world);

  // {"decoder.layers.0.mlp.1.dy": [newest, …], …}; empty unless scaling is delayed.
  //   needs  nothing under way that changes it   cost  waits for the device
  Json state(Stream& stream) const;
  // Names of layers that are not here are ignored; a longer history is cut, a shorter one goes on from what there is.
  void restore(Stream& stream, const Json& state);

 private:
  View cell(const Tensor& table, int unit, int product, Fp8Operand operand) const;
  Fp8Spec spec_;
  std::vector<std::string> names_;            // by cell, empty where there is no product
  Tensor history_;                   // [history, cells], newest first; below zero: nothing yet
  Tensor used_, seen_;
  Device device_;
  std::map<std::pair<int, int>, Weight> weights_;  // by unit and product
};

}  // namespace mt
