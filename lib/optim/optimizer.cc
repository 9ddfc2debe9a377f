#include "optim/optimizer.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/host_side.h"
#include "layout/initial_values.h"
#include "ops/arithmetic.h"
#include "ops/sum_squares.h"

namespace mt {

namespace {

constexpr std::int64_t kDrawElements = 16384;         // drawn by one thread at a time
constexpr std::int64_t kUploadElements = 1024 * kDrawElements;  // drawn before they go to the device

// Initial values of elements [begin, end) of a local parameter, pieces of them in parallel, into the host's memory.
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

StateSpec OptimizerOptions::state(DType compute) const {
  StateSpec spec(compute);
  spec.rule = rule;
  spec.exp_avg = adam.exp_avg;
  spec.exp_avg_sq = adam.exp_avg_sq;
  spec.momentum = sgd_momentum != 0;
  spec.muon_whole = !muon.blockwise;
  spec.muon_split_qkv = muon.split_qkv;
  spec.on_host = host.share;
  return spec;
}

Optimizer::Optimizer(ParameterStore& store, const OptimizerOptions& options, Device device)
    : store_(store), options_(options), spec_(options.state(store.compute_dtype())), device_(device) {
  if (device.kind == DeviceKind::cpu) spec_.on_host = 0;
  spec_.grads = store.grad_dtype();
  lay_out(device);
  prepare_host(device);
  bins_ = Tensor(device, DType::i64, {ops::kSumSquaresSize});
  scalars_ = Tensor(device, DType::u8, {static_cast<std::int64_t>(2 * sizeof(ops::AdamwScalars))});
  if (!scale_kinds(spec_).empty()) scales_ = std::make_unique<MomentScales>(store, spec_, device);
}

// Kind by kind, a kind's shards one after the other; what is padded in a shard's gradient is padded in its state.
void Optimizer::lay_out(Device device) {
  const auto& plan = store_.plan();
  kept_.resize(plan.shards.size());
  std::vector<StateKind> kinds;
  const auto note = [&](const StateKind& k) {
    for (const auto& known : kinds)
      if (std::string_view(known.kind) == k.kind) return;
    kinds.push_back(k);
  };
  std::vector<std::vector<StateKind>> of_shard;
  for (const auto& shard : plan.shards) {
    of_shard.push_back(state_kinds(spec_, store_.spec(shard.param)));
    if (spec_.own_master()) of_shard.back().push_back({"master", DType::f32});
    for (const auto& k : of_shard.back()) note(k);
  }
  on_host_ = shards_on_host(plan, spec_);
  std::int64_t at[2] = {0, 0};  // on the device, on the host
  for (const auto& kind : kinds) {
    for (std::size_t i = 0; i < plan.shards.size(); ++i) {
      const std::int64_t next = i + 1 < plan.shards.size() ? plan.shards[i + 1].state : plan.state;
      for (const auto& k : of_shard[i]) {
        if (std::string_view(k.kind) != kind.kind) continue;
        std::int64_t& here = at[on_host_[i] ? 1 : 0];
        kept_[i].push_back({k.kind, k.dtype, static_cast<std::size_t>(here)});
        here += bytes_of(k.dtype, next - plan.shards[i].state);
      }
    }
    for (std::int64_t& here : at) here = (here + 3) / 4 * 4;
  }
  state_ = Buffer(device, static_cast<std::size_t>(at[0]));
  host_state_ = Buffer(device, static_cast<std::size_t>(at[1]), options_.host.state);
}

View Optimizer::shard_state(std::size_t shard, std::string_view kind) const {
  if (kind == "master" && !spec_.own_master()) return store_.shard_weight(shard);
  for (const auto& k : kept_[shard])
    if (k.kind == kind)
      return View((on_host_[shard] ? host_state_ : state_).data() + k.at, k.dtype, {store_.plan().shards[shard].size()});
  MT_CHECK(false, "no {} is kept of {}", kind, store_.spec(store_.plan().shards[shard].param).name);
  return {};
}

View Optimizer::shard_master(std::size_t shard) const { return shard_state(shard, "master"); }

View Optimizer::state(int param, std::string_view kind) const {
  const auto& spec = store_.spec(param);
  const View flat = shard_state(static_cast<std::size_t>(param), kind);
  MT_CHECK(flat.size() == spec.elements(), "{} is sharded", spec.name);
  return spec.shape.size() == 2 ? flat.reshape({spec.shape[0], spec.shape[1]}) : flat;
}

void Optimizer::initialize(Stream& stream, const Groups& groups, std::uint64_t seed) {
  zero_bytes(stream, state_.data(), state_.size());
  if (host_state_.size() > 0) std::memset(host_state_.data(), 0, host_state_.size());
  if (scales_) scales_->reset(stream);
  stream.synchronize();
  const auto& shards = store_.plan().shards;
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (std::int64_t lo = shards[i].begin; lo < shards[i].end; lo += kUploadElements) {
      const std::int64_t hi = std::min(lo + kUploadElements, shards[i].end);
      const View part = shard_master(i).rows(lo - shards[i].begin, hi - shards[i].begin);
      if (on_host_[i] && spec_.own_master()) {
        draw(stream, store_.spec(shards[i].param), seed, lo, hi, part.as<float>());
        continue;
      }
      HostSide side(stream, part.data, part.bytes());
      draw(stream, store_.spec(shards[i].param), seed, lo, hi, side.as<float>());
      side.store();
    }
  step_ = 0;
  prepare_muon(groups);
  publish(stream, groups);
}

void Optimizer::publish(Stream& stream, const Groups& groups) {
  if (spec_.own_master())
    for (std::size_t i = 0; i < store_.plan().shards.size(); ++i)
      if (!on_host_[i]) ops::cast(stream, {.x = shard_master(i), .out = store_.shard_weight(i)});
  publish_from_host(stream);
  store_.publish_weights(stream, groups);
  store_.await_gathers(stream);  // a load may write the same weights next
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
  const bool counts = store_.plan().spec.instance == 0;  // the others hold the same shards
  for (const auto& part : norm_parts_)
    if (counts) ops::sum_squares(stream, {.x = store_.shard_grad(part.shard).rows(part.begin, part.end), .bins = bins_});
  Communicator& all = store_.plan().spec.sharded() ? *groups.world : *groups.model;
  if (all.size() > 1) all.all_reduce(stream, bins_, Reduce::sum).wait(stream);
  HostSide bins(stream, bins_.view().data, bins_.bytes());
  bins.fetch();
  return ops::sum_squares_value({bins.as<std::int64_t>(), ops::kSumSquaresSize});
}

const ops::AdamwScalars* Optimizer::publish_scalars(Stream& stream, const ops::AdamwScalars& now) {
  auto* scalars = static_cast<ops::AdamwScalars*>(scalars_.view().data);
  ops::AdamwScalars both[2] = {now, now};
  both[1].grad_scale = 1;
  upload_bytes(stream, scalars, both, sizeof both);
  return scalars;
}

bool Optimizer::is_muons(std::size_t shard) const {
  return spec_.rule == UpdateRule::muon && is_layer_matrix(store_.spec(store_.plan().shards[shard].param));
}

Optimizer::ShardViews Optimizer::views_of(std::size_t shard) const {
  ShardViews v;
  v.master = shard_master(shard);
  for (const Kept& k : kept_[shard]) {
    const View view = shard_state(shard, k.kind);
    if (k.kind == "exp_avg") v.exp_avg = view;
    if (k.kind == "exp_avg_sq") v.exp_avg_sq = view;
    if (k.kind == "momentum_buffer") v.momentum = view;
  }
  v.grad = store_.shard_grad(shard);
  if (spec_.own_master()) v.model = store_.shard_weight(shard);
  return v;
}

void Optimizer::update(Stream& stream, const ShardViews& v, const ops::AdamwScalars* scalars, float weight_decay) const {
  switch (spec_.rule) {
    case UpdateRule::sgd:
      return ops::sgd(stream, {.master = v.master,
                               .momentum = v.momentum,
                               .grad = v.grad,
                               .model = v.model,
                               .scalars = scalars,
                               .momentum_factor = static_cast<float>(options_.sgd_momentum),
                               .weight_decay = weight_decay});
    case UpdateRule::lion:
      return ops::lion(stream, {.master = v.master,
                                .exp_avg = v.exp_avg,
                                .grad = v.grad,
                                .model = v.model,
                                .scalars = scalars,
                                .beta1 = static_cast<float>(options_.lion.beta1),
                                .beta2 = static_cast<float>(options_.lion.beta2),
                                .weight_decay = weight_decay});
    default: break;
  }
  ops::adamw(stream, adamw_step(v, scalars, weight_decay));
}

ops::AdamwArgs Optimizer::adamw_step(const ShardViews& v, const ops::AdamwScalars* scalars, float weight_decay) const {
  return {.master = v.master,
          .exp_avg = v.exp_avg,
          .exp_avg_sq = v.exp_avg_sq,
          .grad = v.grad,
          .model = v.model,
          .scalars = scalars,
          .beta1 = static_cast<float>(options_.adam.beta1),
          .beta2 = static_cast<float>(options_.adam.beta2),
          .epsilon = static_cast<float>(options_.adam.eps),
          .weight_decay = weight_decay};
}

namespace {

// A range of a step's elements.
ops::AdamwArgs rows_of(ops::AdamwArgs step, std::int64_t begin, std::int64_t end) {
  for (View* v : {&step.master, &step.exp_avg, &step.exp_avg_sq, &step.grad, &step.model})
    if (*v) *v = v->rows(begin, end);
  return step;
}

}  // namespace

// Piece by piece, since each logical tensor has scales of its own: first what they must cover, then the step. Padding of
// the vocabulary is in no piece, and stays zero.
void Optimizer::update_scaled(Stream& stream, const Groups& groups, const ops::AdamwScalars* scalars,
                              double weight_decay) {
  const auto& shards = store_.plan().shards;
  const auto each_piece = [&](const auto& f) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto& spec = store_.spec(shards[i].param);
      const std::int64_t width = spec.shape.size() == 2 ? spec.shape[1] : 1;
      const ops::AdamwArgs whole = adamw_step(views_of(i), scalars, decay_of(i, weight_decay));
      for (std::size_t k = 0; k < spec.pieces.size(); ++k) {
        if (spec.pieces[k].box.empty()) continue;
        const std::int64_t first = spec.pieces[k].local.offset[0] * width;
        const std::int64_t lo = std::max(shards[i].begin, first) - shards[i].begin;
        const std::int64_t hi = std::min(shards[i].end, first + spec.pieces[k].local.size()) - shards[i].begin;
        if (lo >= hi) continue;
        ops::AdamwArgs step = rows_of(whole, lo, hi);
        step.exp_avg_scale = scales_->exp_avg(shards[i].param, k);
        step.exp_avg_sq_scale = scales_->exp_avg_sq(shards[i].param, k);
        f(step, shards[i].param, k);
      }
    }
  };
  scales_->begin_step(stream);
  each_piece([&](const ops::AdamwArgs& step, int param, std::size_t k) {
    ops::adamw_largest(stream, {step, scales_->largest(param, k, 0), scales_->largest(param, k, 1)});
  });
  scales_->agree(stream, groups);
  each_piece([&](const ops::AdamwArgs& step, int, std::size_t) { ops::adamw(stream, step); });
  scales_->end_step(stream);
}

float Optimizer::decay_of(std::size_t shard, double weight_decay) const {
  return store_.spec(store_.plan().shards[shard].param).decay ? static_cast<float>(weight_decay) : 0.0f;
}

std::vector<MomentScales::Stored> Optimizer::scales() const {
  return scales_ ? scales_->stored() : std::vector<MomentScales::Stored>{};
}

void Optimizer::prepare_muon(const Groups& groups) {
  if (spec_.rule == UpdateRule::muon && !muon_)
    muon_ = std::make_unique<Muon>(store_, groups, options_.muon, device_);
}

void Optimizer::update_matrices(Stream& stream, const Groups& groups, const ops::AdamwScalars* scalars,
                                float weight_decay) {
  prepare_muon(groups);
  std::vector<Muon::Shard> shards(store_.plan().shards.size());
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (is_muons(i))
      shards[i] = {shard_master(i), shard_state(i, "momentum_buffer"),
                   spec_.own_master() ? store_.shard_weight(i) : View(), weight_decay};
  muon_->update(stream, shards, &scalars[0], &scalars[1]);
}

Optimizer::StepResult Optimizer::step(Stream& stream, const Groups& groups, double lr, double weight_decay,
                                      double loss_scale) {
  const double norm = std::sqrt(grad_norm(stream, groups)) / loss_scale;
  if (!std::isfinite(norm)) return {norm, true};
  ++step_;
  const double clip = options_.clip_grad > 0 ? options_.clip_grad / (norm + 1e-6) : 1.0;
  const auto beta1 = static_cast<float>(options_.adam.beta1), beta2 = static_cast<float>(options_.adam.beta2);
  const float factor = clip < 1 ? static_cast<float>(clip) : 1.0f;
  const ops::AdamwScalars now{static_cast<float>(lr), static_cast<float>(static_cast<double>(factor) / loss_scale),
                              ops::adamw_bias_correction(beta1, step_), ops::adamw_bias_correction(beta2, step_), 0};
  const auto* scalars = publish_scalars(stream, now);
  if (scales_) update_scaled(stream, groups, scalars, weight_decay);
  else
    for (std::size_t i = 0; i < store_.plan().shards.size(); ++i)
      if (!is_muons(i) && !on_host_[i]) update(stream, views_of(i), scalars, decay_of(i, weight_decay));
  if (spec_.rule == UpdateRule::muon) update_matrices(stream, groups, scalars, static_cast<float>(weight_decay));
  update_on_host(stream, now, weight_decay);
  store_.publish_weights(stream, groups);
  return {norm, false};
}

}  // namespace mt
