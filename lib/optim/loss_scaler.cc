#include "optim/loss_scaler.h"

#include <algorithm>
#include <limits>

#include "device/host_side.h"

namespace mt {

namespace {

// 1 / scale is f32 too and must be no denormal.
constexpr double kMostScale = 1 / static_cast<double>(std::numeric_limits<float>::min());

}  // namespace

LossScaler::LossScaler(const LossScaleOptions& options, bool dynamic, Device device)
    : options_(options),
      dynamic_(dynamic && !options.fixed),
      scale_(options.fixed ? *options.fixed : dynamic ? options.initial : 1),
      hysteresis_(options.hysteresis),
      device_(device, DType::f32, {1}) {
  Stream stream(device);
  publish(stream);
}

void LossScaler::publish(Stream& stream) {
  const auto now = static_cast<float>(scale_);
  upload_bytes(stream, device_.view().data, &now, sizeof now);
}

bool LossScaler::update(Stream& stream, bool finite) {
  if (!dynamic_) return false;
  const double before = scale_;
  if (finite) {
    if (++growth_ < options_.window) return false;
    growth_ = 0;
    hysteresis_ = options_.hysteresis;
    if (scale_ <= kMostScale / 2) scale_ *= 2;
  } else {
    growth_ = 0;
    if (--hysteresis_ <= 0) scale_ = std::max(scale_ / 2, options_.min);
  }
  publish(stream);
  return !finite && before > options_.min;
}

Json LossScaler::state() const {
  return {{"scale", scale_}, {"growth_tracker", growth_}, {"hysteresis_tracker", hysteresis_}};
}

void LossScaler::restore(Stream& stream, const Json& state, const std::string& where) {
  if (!dynamic_) return;
  scale_ = json_field<double>(state, "scale", where);
  growth_ = json_field<std::int64_t>(state, "growth_tracker", where);
  hysteresis_ = json_field<std::int64_t>(state, "hysteresis_tracker", where);
  publish(stream);
}

}  // namespace mt
