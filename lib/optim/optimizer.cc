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

constexpr std::int64_t kAlignElements = 64;

// Initial values of a whole local parameter, rows in parallel.
void draw(const Stream& stream, const ParamSpec& spec, std::uint64_t seed, View out) {
  for (const auto& piece : spec.pieces) {
    if (piece.box.empty()) continue;
    const View dst = piece_view(out, piece);
    MT_CHECK(dst.contiguous(), "piece {} of {} is not contiguous", piece.name, spec.name);
    float* base = dst.as<float>();
    const std::int64_t rows = piece.box.extent[0], width = piece.box.size() / rows;
    const std::int64_t block = std::max<std::int64_t>(1, 16384 / width);
    cpu::parallel_ranges(stream, rows, block, [&](std::int64_t lo, std::int64_t hi) {
      Box part = piece.box;
      part.offset[0] += lo;
      part.extent[0] = hi - lo;
      initial_values(piece, seed, part, base + lo * width);
    });
  }
}

}  // namespace

Optimizer::Optimizer(ParameterStore& store, const AdamOptions& options, Device device)
    : store_(store), options_(options), own_master_(store.compute_dtype() != DType::f32) {
  for (const auto& spec : store.specs()) {
    offsets_.push_back(total_);
    total_ += (spec.elements() + kAlignElements - 1) / kAlignElements * kAlignElements;
  }
  state_ = Buffer(device, static_cast<std::size_t>(bytes_of(DType::f32, total_ * (own_master_ ? 3 : 2))));
  bins_ = Tensor(device, DType::i64, {ops::kSumSquaresSize});
  scalars_ = Tensor(device, DType::u8, {static_cast<std::int64_t>(sizeof(ops::AdamwScalars))});
}

View Optimizer::state(int param, int which) const {
  const auto& spec = store_.spec(param);
  const std::int64_t at = offsets_[static_cast<std::size_t>(param)] + which * total_;
  View v(state_.data() + bytes_of(DType::f32, at), DType::f32, {spec.elements()});
  return spec.shape.size() == 2 ? v.reshape({spec.shape[0], spec.shape[1]}) : v;
}

View Optimizer::exp_avg(int param) const { return state(param, 0); }
View Optimizer::exp_avg_sq(int param) const { return state(param, 1); }
View Optimizer::master(int param) const { return own_master_ ? state(param, 2) : store_.weight(param); }

void Optimizer::initialize(Stream& stream, std::uint64_t seed) {
  zero_bytes(stream, state_.data(), state_.size());
  stream.synchronize();
  for (int i = 0; i < store_.num_params(); ++i) draw(stream, store_.spec(i), seed, master(i));
  step_ = 0;
  publish(stream);
}

void Optimizer::publish(Stream& stream) {
  if (!own_master_) return;
  for (int i = 0; i < store_.num_params(); ++i) ops::cast(stream, {.x = master(i), .out = store_.weight(i)});
}

double Optimizer::grad_norm(Stream& stream, const Groups& groups) {
  zero_bytes(stream, bins_.view().data, bins_.bytes());
  const auto& spec = groups.placement.spec;
  for (int i = 0; i < store_.num_params(); ++i)
    for (const auto& piece : store_.spec(i).pieces) {
      // A replica other than the first holds the same gradient; counting it would count the parameter twice.
      const int copies = piece.replicated.empty() ? 1
                         : piece.replicated.front() == Axis::tp ? spec.tp
                                                                : groups.kv->size();
      if (groups.coordinate.tp % copies != 0 || piece.box.empty()) continue;
      const View g = piece_view(store_.grad(i), piece);
      ops::sum_squares(stream, {.x = g.reshape({g.size()}), .bins = bins_});
    }
  if (groups.model->size() > 1) groups.model->all_reduce(stream, bins_, Reduce::sum).wait(stream);
  stream.synchronize();
  return ops::sum_squares_value({bins_.view().as<std::int64_t>(), ops::kSumSquaresSize});
}

Optimizer::StepResult Optimizer::step(Stream& stream, const Groups& groups, double lr, double weight_decay) {
  const double norm = std::sqrt(grad_norm(stream, groups));
  if (!std::isfinite(norm)) return {norm, true};
  ++step_;
  const double clip = options_.clip_grad > 0 ? options_.clip_grad / (norm + 1e-6) : 1.0;
  const auto beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
  auto* scalars = static_cast<ops::AdamwScalars*>(scalars_.view().data);
  const ops::AdamwScalars now{static_cast<float>(lr), clip < 1 ? static_cast<float>(clip) : 1.0f,
                              ops::adamw_bias_correction(beta1, step_), ops::adamw_bias_correction(beta2, step_), 0};
  stream.launch([scalars, now] { *scalars = now; });
  for (int i = 0; i < store_.num_params(); ++i) {
    const auto flat = [](View v) { return v.reshape({v.size()}); };
    ops::adamw(stream, {.master = flat(master(i)),
                        .exp_avg = flat(exp_avg(i)),
                        .exp_avg_sq = flat(exp_avg_sq(i)),
                        .grad = flat(store_.grad(i)),
                        .model = own_master_ ? flat(store_.weight(i)) : View(),
                        .scalars = scalars,
                        .beta1 = beta1,
                        .beta2 = beta2,
                        .epsilon = static_cast<float>(options_.eps),
                        .weight_decay = store_.spec(i).decay ? static_cast<float>(weight_decay) : 0.0f});
  }
  return {norm, false};
}

}  // namespace mt
