#pragma once
// The factor that keeps f16 gradients away from zero: fixed, or moved by what the gradients of each step were.
//
//   dynamic  doubled after `window` finite steps in a row; halved at an overflow once `hysteresis` of them came since it
//            was last doubled, never below `min`, nor above 2^126, whose inverse is the least normal f32
// The losses are multiplied by it before backward and the gradients divided by it in the optimizer; with powers of two
// both are exact. Source: Micikevicius et al., arXiv:1710.03740; the rule is Megatron's DynamicGradScaler.
// Code: optim/loss_scaler.cc. Tests: tests/optim/loss_scaler_test.cc.

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "device/stream.h"
#include "tensor/tensor.h"

namespace mt {

struct LossScaleOptions {
  std::optional<double> fixed;  // given: never moved
  double initial = 4294967296.0, min = 1;
  std::int64_t window = 1000, hysteresis = 2;
};

class LossScaler {
 public:
  // `dynamic`: the fp16 rule where no fixed scale is given; else the scale is the fixed one, or 1.
  LossScaler(const LossScaleOptions& options, bool dynamic, Device device);

  double scale() const { return scale_; }
  bool dynamic() const { return dynamic_; }
  // The scale in device memory, f32, for kernels.
  const float* on_device() const { return device_.view().as<float>(); }

  // After a step: whether its gradients were finite, the same on every rank.
  //   gives  true if an overflow is an answer to this scale: a smaller one is still to be tried
  bool update(Stream& stream, bool finite);

  // All that moves, for a checkpoint.
  Json state() const;
  //   fails  Error{corrupt} naming the field
  void restore(Stream& stream, const Json& state, const std::string& where);

 private:
  void publish(Stream& stream);
  LossScaleOptions options_;
  bool dynamic_;
  double scale_;
  std::int64_t growth_ = 0, hysteresis_;
  Tensor device_;
};

}  // namespace mt
