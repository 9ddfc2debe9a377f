#include "nn/fp8_state.h"

#include <algorithm>

#include "device/host_side.h"
#include "layout/param_spec.h"
#include "ops/arithmetic.h"
#include "ops/fp8.h"

namespace mt {

namespace {
constexpr int kOperands = 3, kCells = 2 * kOperands;  // of a unit
constexpr const char* kNames[] = {"x", "weight", "dy"};
constexpr float kNothing = -1;
}  // namespace

Fp8State::Fp8State(const ModelSpec& model, Device device) : spec_(model.fp8), device_(device) {
  if (spec_.recipe != Fp8Spec::Recipe::delayed) return;
  const int units = num_units(model);
  names_.resize(static_cast<std::size_t>(units * kCells));
  for (std::size_t i = 0; i < model.decoder().rows.size(); ++i) {
    const Row& row = model.decoder().rows[i];
    if (!row.fp8) continue;
    for (int c = 0; c < kCells; ++c)
      names_[(i + 1) * kCells + static_cast<std::size_t>(c)] =
          fmt::format("decoder.layers.{}.{}.{}.{}", row.layer, row.kind == RowKind::attention ? "self_attention" : "mlp",
                      c / kOperands, kNames[c % kOperands]);
  }
  history_ = Tensor(device, DType::f32, {spec_.history, units * kCells});
  Stream stream(device);
  ops::fill(stream, history_.view(), kNothing);
  used_ = Tensor(device, DType::f32, {units * kCells});
  seen_ = Tensor(device, DType::f32, {units * kCells});
}

View Fp8State::cell(const Tensor& table, int unit, int product, Fp8Operand operand) const {
  const std::int64_t at = unit * kCells + product * kOperands + static_cast<int>(operand);
  return table.view().rows(at, at + 1);
}

Fp8State::Weight& Fp8State::weight(int unit, int product, std::int64_t rows, std::int64_t columns, DType dtype) {
  Weight& w = weights_[{unit, product}];
  if (!w.memory.view())
    w.memory = Tensor(device_, DType::u8, {fp8_weight_bytes(spec_, rows, columns, bytes_of(dtype, 1))});
  return w;
}

void Fp8State::forget_weights() {
  for (auto& [place, w] : weights_) {
    w.copies = {};
    w.noted = w.amax_known = false;
  }
}

std::size_t Fp8State::weight_bytes() const {
  std::size_t n = 0;
  for (const auto& [place, w] : weights_) n += w.memory.bytes();
  return n;
}

void Fp8State::end_step(Stream& stream, Communicator& world) {
  forget_weights();
  if (names_.empty()) return;
  if (world.size() > 1) world.all_reduce(stream, seen_, Reduce::max).wait(stream);
  ops::amax_history(stream, {.history = history_, .seen = seen_, .used = used_, .most_recent = spec_.most_recent});
}

Json Fp8State::state(Stream& stream) const {
  Json j = Json::object();
  if (names_.empty()) return j;
  HostSide side(stream, history_.view().data, history_.bytes());
  side.fetch();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty()) continue;
    std::vector<float> past;
    for (std::size_t h = i; h < static_cast<std::size_t>(spec_.history) * names_.size(); h += names_.size())
      if (side.as<float>()[h] >= 0) past.push_back(side.as<float>()[h]);
    j[names_[i]] = past;
  }
  return j;
}

void Fp8State::restore(Stream& stream, const Json& state) {
  forget_weights();
  if (names_.empty()) return;
  const std::size_t length = static_cast<std::size_t>(spec_.history), cells = names_.size();
  HostSide all(stream, history_.view().data, history_.bytes()), used(stream, used_.view().data, used_.bytes());
  all.fetch();
  used.fetch();
  for (std::size_t i = 0; i < cells; ++i) {
    const auto it = names_[i].empty() ? state.end() : state.find(names_[i]);
    if (it == state.end() || !it->is_array()) continue;
    const auto past = it->get<std::vector<float>>();
    const std::size_t count = std::min(past.size(), length);
    for (std::size_t h = 0; h < length; ++h) all.as<float>()[h * cells + i] = h < count ? past[h] : kNothing;
    float most = 0;
    for (std::size_t h = 0; h < count && (h == 0 || !spec_.most_recent); ++h) most = std::max(most, past[h]);
    used.as<float>()[i] = most;
  }
  all.store();
  used.store();
}

}  // namespace mt
