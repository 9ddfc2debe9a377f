#include "nn/fp8_state.h"

#include <algorithm>
#include <cmath>

#include "device/host_side.h"
#include "layout/param_spec.h"

namespace mt {

namespace {
constexpr int kOperands = 3, kCells = 2 * kOperands;  // of a unit
constexpr const char* kNames[] = {"x", "weight", "dy"};
}  // namespace

Fp8State::Fp8State(const ModelSpec& model, Device device) : spec_(model.fp8) {
  if (spec_.recipe != Fp8Spec::Recipe::delayed) return;
  const int units = num_units(model);
  names_.resize(static_cast<std::size_t>(units * kCells));
  history_.resize(names_.size());
  for (std::size_t i = 0; i < model.decoder().rows.size(); ++i) {
    const Row& row = model.decoder().rows[i];
    if (!row.fp8) continue;
    for (int c = 0; c < kCells; ++c)
      names_[(i + 1) * kCells + static_cast<std::size_t>(c)] =
          fmt::format("decoder.layers.{}.{}.{}.{}", row.layer, row.kind == RowKind::attention ? "self_attention" : "mlp",
                      c / kOperands, kNames[c % kOperands]);
  }
  used_ = Tensor(device, DType::f32, {units * kCells});
  seen_ = Tensor(device, DType::f32, {units * kCells});
}

View Fp8State::cell(const Tensor& table, int unit, int product, Fp8Operand operand) const {
  const std::int64_t at = unit * kCells + product * kOperands + static_cast<int>(operand);
  return table.view().rows(at, at + 1);
}

void Fp8State::choose(Stream& stream) {
  std::vector<float> now;
  for (const auto& h : history_) {
    const bool recent = spec_.most_recent || h.empty();
    now.push_back(h.empty() ? 0 : recent ? h.front() : *std::max_element(h.begin(), h.end()));
  }
  upload_bytes(stream, used_.view().data, now.data(), now.size() * sizeof(float));
}

void Fp8State::end_step(Stream& stream, Communicator& world) {
  if (names_.empty()) return;
  if (world.size() > 1) world.all_reduce(stream, seen_, Reduce::max).wait(stream);
  HostSide side(stream, seen_.view().data, seen_.bytes());
  side.fetch();
  const float* seen = side.as<float>();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty() || !std::isfinite(seen[i])) continue;
    history_[i].insert(history_[i].begin(), seen[i]);
    if (history_[i].size() > static_cast<std::size_t>(spec_.history)) history_[i].pop_back();
  }
  choose(stream);
  zero_bytes(stream, seen_.view().data, seen_.bytes());
}

Json Fp8State::state() const {
  Json j = Json::object();
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!names_[i].empty()) j[names_[i]] = history_[i];
  return j;
}

void Fp8State::restore(Stream& stream, const Json& state) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto it = names_[i].empty() ? state.end() : state.find(names_[i]);
    if (it == state.end() || !it->is_array()) continue;
    history_[i] = it->get<std::vector<float>>();
    if (history_[i].size() > static_cast<std::size_t>(spec_.history)) history_[i].resize(static_cast<std::size_t>(spec_.history));
  }
  if (!names_.empty()) choose(stream);
}

}  // namespace mt
