#pragma once
// The optimizer over the shards of a parameter store: f32 master weights, moments, exact gradient norm, clipping.
//
//   master   the f32 weights; for an f32 model they are the model's weights themselves, no copy
//   shard    what this rank updates: everything, or its part under ZeRO (layout/shards.h); states exist for shards alone
//   rule     AdamW (ops/adamw.h), SGD or Lion (ops/momentum.h), or Muon (optim/muon.h) with AdamW for what it leaves;
//            layout/state_spec.h says what each keeps
//   norm     L2 of all logical parameters, each element once (replicas and padding excluded), from an exact
//            accumulator: equal gradients give the identical norm in every layout
// Weight decay follows ParamSpec.decay.
// A share of the state may lie in host memory beside an accelerator (layout/host_state.h): gradients of those shards then
// come over piece by piece, the CPU's kernels update, new weights go back. Results are the same bits. Code: optim/optimizer.cc, optim/host_update.cc.
// Tests: tests/optim/optimizer_test.cc, rules_test.cc, tests/train/host_state_test.cc.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "device/host_pieces.h"
#include "layout/host_state.h"
#include "ops/adamw.h"
#include "optim/moment_scales.h"
#include "optim/muon.h"
#include "params/parameter_store.h"
#include "tensor/tensor.h"

namespace mt {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  DType exp_avg = DType::f32, exp_avg_sq = DType::f32;  // as moments are kept: f32, bf16, f16 or e4m3; not under Muon
};

struct LionOptions {
  double beta1 = 0.95, beta2 = 0.98;
};

// On a CPU all of it is in host memory anyway, and this changes nothing.
struct HostStateOptions {
  double share = 0;
  Memory state = Memory::pinned, pieces = Memory::pinned;
  std::int64_t largest_piece = kHostPiece;  // elements
};

struct OptimizerOptions {
  UpdateRule rule = UpdateRule::adam;
  AdamOptions adam;           // also for what Muon leaves
  double sgd_momentum = 0.9;  // 0: none is kept
  LionOptions lion;
  MuonOptions muon;
  HostStateOptions host;  // not with Muon, nor with moments that have a scale
  double clip_grad = 1.0;  // ≤ 0: no clipping

  // What it keeps for a model of this dtype.
  StateSpec state(DType compute) const;
};

class Optimizer {
 public:
  // Allocates moments, and master weights when the model is not f32.   fails  Error{device}
  Optimizer(ParameterStore& store, const OptimizerOptions& options, Device device);

  // Master and model weights from the run's seed; moments zero; step 0; Muon's buffers. Collective over the world.
  void initialize(Stream& stream, const Groups& groups, std::uint64_t seed);
  // Model weights from the master weights (after a load). Collective over dp·cp under ZeRO.
  void publish(Stream& stream, const Groups& groups);

  const StateSpec& state_spec() const { return spec_; }
  // State of one shard of store.plan().shards, flat: "master", or a kind of state_kinds() of its parameter.
  View shard_state(std::size_t shard, std::string_view kind) const;
  View shard_master(std::size_t shard) const;
  View shard_exp_avg(std::size_t shard) const { return shard_state(shard, "exp_avg"); }
  View shard_exp_avg_sq(std::size_t shard) const { return shard_state(shard, "exp_avg_sq"); }
  // State of a whole parameter in its local shape.   needs  nothing is sharded
  View state(int param, std::string_view kind) const;
  View master(int param) const { return state(param, "master"); }
  View exp_avg(int param) const { return state(param, "exp_avg"); }
  View exp_avg_sq(int param) const { return state(param, "exp_avg_sq"); }

  // Scales of moments that have one (optim/moment_scales.h); they point into device memory.
  std::vector<MomentScales::Stored> scales() const;

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
  // In host memory beside an accelerator: state, and pieces under way.
  std::size_t host_bytes() const { return host_state_.size() + (host_pieces_ ? host_pieces_->bytes() : 0); }
  // What an update needs beside its state: Muon's matrices; there after initialize.
  std::size_t buffer_bytes() const { return muon_ ? muon_->buffer_bytes() : 0; }

 private:
  // Elements of a shard's gradient that count in the norm.
  struct NormPart {
    std::size_t shard;
    std::int64_t begin, end;
  };
  // A kind of state of one shard: where it lies in state_.
  struct Kept {
    std::string_view kind;
    DType dtype;
    std::size_t at;
  };
  // A stretch of a shard whose state is in host memory.
  struct HostStretch {
    std::size_t shard;
    std::int64_t begin, end;
  };
  void lay_out(Device device);
  void prepare_host(Device device);
  void find_norm_parts(const Groups& groups);
  double grad_norm(Stream& stream, const Groups& groups);
  // Scalars of a step into device memory: as given, and with a grad_scale of 1 for what was scaled before.
  const ops::AdamwScalars* publish_scalars(Stream& stream, const ops::AdamwScalars& now);
  // Views of one shard, or of a stretch of it.
  struct ShardViews {
    View master, exp_avg, exp_avg_sq, momentum, grad, model;
  };
  ShardViews views_of(std::size_t shard) const;
  void update(Stream& stream, const ShardViews& v, const ops::AdamwScalars* scalars, float weight_decay) const;
  void update_on_host(Stream& stream, const ops::AdamwScalars& scalars, double weight_decay);
  void publish_from_host(Stream& stream);
  ops::AdamwArgs adamw_step(const ShardViews& v, const ops::AdamwScalars* scalars, float weight_decay) const;
  void update_scaled(Stream& stream, const Groups& groups, const ops::AdamwScalars* scalars, double weight_decay);
  float decay_of(std::size_t shard, double weight_decay) const;
  void update_matrices(Stream& stream, const Groups& groups, const ops::AdamwScalars* scalars, float weight_decay);
  void prepare_muon(const Groups& groups);
  bool is_muons(std::size_t shard) const;

  ParameterStore& store_;
  OptimizerOptions options_;
  StateSpec spec_;
  Device device_;
  std::int64_t step_ = 0;
  std::vector<bool> on_host_;  // by shard
  Buffer state_, host_state_;
  std::vector<std::vector<Kept>> kept_;  // by shard
  Tensor bins_, scalars_;
  std::vector<NormPart> norm_parts_;  // found at the first step
  std::unique_ptr<HostPieces> host_pieces_;  // where some state is on the host
  std::vector<HostStretch> stretches_;
  std::vector<HostPiece> pieces_;         // by stretch
  std::unique_ptr<MomentScales> scales_;  // where a moment has one
  std::unique_ptr<Muon> muon_;        // made at initialize, or the first step
};

}  // namespace mt
