#pragma once
// AdamW over the shards of a parameter store: f32 master weights and moments, exact gradient norm, clipping.
//
//   master   the f32 weights; for an f32 model they are the model's weights themselves, no copy
//   norm     L2 of all logical parameters, each element once (replicas and padding excluded), from an exact
//            accumulator: equal gradients give the identical norm in every layout
// Weight decay follows ParamSpec.decay. Code: optim/optimizer.cc. Tests: tests/optim/optimizer_test.cc.

#include <cstdint>

#include "ops/adamw.h"
#include "params/parameter_store.h"
#include "tensor/tensor.h"

namespace mt {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double clip_grad = 1.0;  // ≤ 0: no clipping
};

class Optimizer {
 public:
  // Allocates moments, and master weights when the model is not f32.   fails  Error{device}
  Optimizer(ParameterStore& store, const AdamOptions& options, Device device);

  // Master and model weights from the run's seed; moments zero; step 0.
  void initialize(Stream& stream, std::uint64_t seed);
  // Model weights from the master weights (after a load).
  void publish(Stream& stream);

  // Views of one parameter's state in its local shape, f32.
  View master(int param) const;
  View exp_avg(int param) const;
  View exp_avg_sq(int param) const;

  struct StepResult {
    double grad_norm = 0;  // before clipping; NaN when skipped
    bool skipped = false;  // non-finite gradients: nothing changed
  };
  // One update from the reduced gradients. Collective over tp·pp (the norm).
  //   needs  finish_reduce has returned
  StepResult step(Stream& stream, const Groups& groups, double lr, double weight_decay);

  std::int64_t num_steps() const { return step_; }
  void set_num_steps(std::int64_t n) { step_ = n; }
  std::size_t state_bytes() const { return state_.size(); }

 private:
  double grad_norm(Stream& stream, const Groups& groups);
  View state(int param, int which) const;

  ParameterStore& store_;
  AdamOptions options_;
  bool own_master_;
  std::vector<std::int64_t> offsets_;
  std::int64_t total_ = 0, step_ = 0;
  Buffer state_;
  Tensor bins_, scalars_;
};

}  // namespace mt
