#include "optim/optimizer.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "layout/initial_values.h"
#include "ops/arithmetic.h"
#include "ops/sum_squares.h"

namespace mt {

namespace {

constexpr std::int64_t kDrawElements = 16384;  // drawn by one thread at a time

// Initial values of elements [begin, end) of a local parameter, pieces of them in parallel.
void draw(const Stream& stream, const ParamSpec& spec, std::uint64_t seed, std::int64_t begin, std::int64_t end,
          float* out) {
  const std::int64_t blocks = (end - begin + kDrawElements - 1) / kDrawElements;
  cpu::parallel_blocks(stream, blocks, [&](std::int64_t b) {
    const std::int64_t lo = begin + b * kDrawElements, hi = std::min(lo + kDrawElements, end);
    for (const auto& piece : spec.pieces)
      for (const auto& part : boxes_in_range(spec, piece, lo, hi))
        initial_values(piece, seed, part.box, out + (part.at - begin));
  });
}

}  // namespace

Optimizer::Optimizer(ParameterStore& store, const AdamOptions& options, Device device)
    : store_(store), options_(options), own_master_(store.compute_dtype() != DType::f32) {
  state_ = Buffer(device, static_cast<std::size_t>(bytes_of(DType::f32, store.plan().state * (own_master_ ? 3 : 2))));
  bins_ = Tensor(device, DType::i64, {ops::kSumSquaresSize});
  scalars_ = Tensor(device, DType::u8, {static_cast<std::int64_t>(sizeof(ops::AdamwScalars))});
}

View Optimizer::state(std::size_t shard, int which) const {
  const OwnedRange& s = store_.plan().shards[shard];
  return View(state_.data() + bytes_of(DType::f32, s.state + which * store_.plan().state), DType::f32, {s.size()});
}

View Optimizer::shard_master(std::size_t shard) const {
  return own_master_ ? state(shard, 2) : store_.shard_weight(shard);
}

View Optimizer::whole(int param, View flat) const {
  const auto& spec = store_.spec(param);
  MT_CHECK(flat.size() == spec.elements(), "{} is sharded", spec.name);
  return spec.shape.size() == 2 ? flat.reshape({spec.shape[0], spec.shape[1]}) : flat;
}

View Optimizer::exp_avg(int param) const { return whole(param, state(static_cast<std::size_t>(param), 0)); }
View Optimizer::exp_avg_sq(int param) const { return whole(param, state(static_cast<std::size_t>(param), 1)); }
View Optimizer::master(int param) const { return whole(param, shard_master(static_cast<std::size_t>(param))); }

void Optimizer::initialize(Stream& stream, const Groups& groups, std::uint64_t seed) {
  zero_bytes(stream, state_.data(), state_.size());
  stream.synchronize();
  const auto& shards = store_.plan().shards;
  for (std::size_t i = 0; i < shards.size(); ++i)
    draw(stream, store_.spec(shards[i].param), seed, shards[i].begin, shards[i].end, shard_master(i).as<float>());
  step_ = 0;
  publish(stream, groups);
}

void Optimizer::publish(Stream& stream, const Groups& groups) {
  if (own_master_)
    for (std::size_t i = 0; i < store_.plan().shards.size(); ++i)
      ops::cast(stream, {.x = shard_master(i), .out = store_.shard_weight(i)});
  store_.publish_weights(stream, groups);
}

void Optimizer::find_norm_parts(const Groups& groups) {
  const auto& shards = store_.plan().shards;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& spec = store_.spec(shards[i].param);
    if (spec.tie_copy) continue;
    for (const auto& piece : spec.pieces) {
      // A replica other than the first holds the same gradient; counting it would count the parameter twice.
      if (!first_replica(piece, groups.coordinate)) continue;
      for (const auto& part : boxes_in_range(spec, piece, shards[i].begin, shards[i].end)) {
        const std::int64_t at = part.at - shards[i].begin;
        norm_parts_.push_back({i, at, at + part.box.size()});
      }
    }
  }
}

double Optimizer::grad_norm(Stream& stream, const Groups& groups) {
  if (norm_parts_.empty()) find_norm_parts(groups);
  zero_bytes(stream, bins_.view().data, bins_.bytes());
  for (const auto& part : norm_parts_)
    ops::sum_squares(stream, {.x = store_.shard_grad(part.shard).rows(part.begin, part.end), .bins = bins_});
  Communicator& all = store_.plan().spec.sharded() ? *groups.world : *groups.model;
  if (all.size() > 1) all.all_reduce(stream, bins_, Reduce::sum).wait(stream);
  stream.synchronize();
  return ops::sum_squares_value({bins_.view().as<std::int64_t>(), ops::kSumSquaresSize});
}

Optimizer::StepResult Optimizer::step(Stream& stream, const Groups& groups, double lr, double weight_decay,
                                      double loss_scale) {
  const double norm = std::sqrt(grad_norm(stream, groups)) / loss_scale;
  if (!std::isfinite(norm)) return {norm, true};
  ++step_;
  const double clip = options_.clip_grad > 0 ? options_.clip_grad / (norm + 1e-6) : 1.0;
  const auto beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
  auto* scalars = static_cast<ops::AdamwScalars*>(scalars_.view().data);
  const float factor = clip < 1 ? static_cast<float>(clip) : 1.0f;
  const ops::AdamwScalars now{static_cast<float>(lr), static_cast<float>(static_cast<double>(factor) / loss_scale),
                              ops::adamw_bias_correction(beta1, step_), ops::adamw_bias_correction(beta2, step_), 0};
  stream.launch([scalars, now] { *scalars = now; });
  const auto& shards = store_.plan().shards;
  for (std::size_t i = 0; i < shards.size(); ++i)
    ops::adamw(stream, {.master = shard_master(i),
                        .exp_avg = shard_exp_avg(i),
                        .exp_avg_sq = shard_exp_avg_sq(i),
                        .grad = store_.shard_grad(i),
                        .model = own_master_ ? store_.shard_weight(i) : View(),
                        .scalars = scalars,
                        .beta1 = beta1,
                        .beta2 = beta2,
                        .epsilon = static_cast<float>(options_.eps),
                        .weight_decay = store_.spec(shards[i].param).decay ? static_cast<float>(weight_decay) : 0.0f});
  store_.publish_weights(stream, groups);
  return {norm, false};
}

}  // namespace mt
