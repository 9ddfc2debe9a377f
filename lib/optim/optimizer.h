#pragma once
// AdamW over the shards of a parameter store: f32 master weights and moments, exact gradient norm, clipping.
//
//   master   the f32 weights; for an f32 model they are the model's weights themselves, no copy
//   shard    what this rank updates: everything, or its part under ZeRO (params/zero.h); states exist for shards alone
//   norm     L2 of all logical parameters, each element once (replicas and padding excluded), from an exact
//            accumulator: equal gradients give the identical norm in every layout
// Weight decay follows ParamSpec.decay. Code: optim/optimizer.cc. Tests: tests/optim/optimizer_test.cc.

#include <cstdint>
#include <vector>

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

  // Master and model weights from the run's seed; moments zero; step 0. Collective over dp·cp under ZeRO.
  void initialize(Stream& stream, const Groups& groups, std::uint64_t seed);
  // Model weights from the master weights (after a load). Collective over dp·cp under ZeRO.
  void publish(Stream& stream, const Groups& groups);

  // State of one shard of store.plan().shards, flat f32.
  View shard_master(std::size_t shard) const;
  View shard_exp_avg(std::size_t shard) const { return state(shard, 0); }
  View shard_exp_avg_sq(std::size_t shard) const { return state(shard, 1); }
  // State of a whole parameter in its local shape.   needs  nothing is sharded
  View master(int param) const;
  View exp_avg(int param) const;
  View exp_avg_sq(int param) const;

  struct StepResult {
    double grad_norm = 0;  // before clipping; NaN when skipped
    bool skipped = false;  // non-finite gradients: nothing changed
  };
  // One update from the reduced gradients, which are `loss_scale` times the true ones; norm and clipping are of the true
  // ones. Collective over tp·pp (the norm), under ZeRO over the world.
  //   needs  finish_reduce has returned
  //   gives  skipped on every rank if a gradient anywhere is not finite
  StepResult step(Stream& stream, const Groups& groups, double lr, double weight_decay, double loss_scale = 1);

  std::int64_t num_steps() const { return step_; }
  void set_num_steps(std::int64_t n) { step_ = n; }
  std::size_t state_bytes() const { return state_.size(); }

 private:
  // Elements of a shard's gradient that count in the norm.
  struct NormPart {
    std::size_t shard;
    std::int64_t begin, end;
  };
  void find_norm_parts(const Groups& groups);
  double grad_norm(Stream& stream, const Groups& groups);
  View state(std::size_t shard, int which) const;
  View whole(int param, View flat) const;

  ParameterStore& store_;
  AdamOptions options_;
  bool own_master_;
  std::int64_t step_ = 0;
  Buffer state_;
  Tensor bins_, scalars_;
  std::vector<NormPart> norm_parts_;  // found at the first step
};

}  // namespace mt
