#include "optim/lr_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace mt {

namespace {

constexpr double kPi = 3.14159265358979323846;

double wsd_factor(WsdStyle style, double q) {
  switch (style) {
    case WsdStyle::linear: return 1 - q;
    case WsdStyle::cosine: return 0.5 * (std::cos(kPi * q) + 1);
    case WsdStyle::exponential: return 2 * std::pow(0.5, q) - 1;
    case WsdStyle::minus_sqrt: return 1 - std::sqrt(q);
  }
  return 0;
}

template <class E, std::size_t N>
E parse(const std::array<const char*, N>& names, const std::string& name, const char* flag) {
  for (std::size_t i = 0; i < N; ++i)
    if (name == names[i]) return static_cast<E>(i);
  std::string all;
  for (const char* n : names) all += std::string(all.empty() ? "" : ", ") + n;
  throw Error(Code::usage, fmt::format("--{} '{}' is unknown", flag, name), "", "one of " + all);
}

}  // namespace

double LrSchedule::learning_rate(std::int64_t n) const {
  const auto samples = static_cast<double>(n), warm = static_cast<double>(warmup_samples);
  if (warmup_samples > 0 && n <= warmup_samples) return warmup_init + (max_lr - warmup_init) * samples / warm;
  if (style == LrStyle::constant) return max_lr;
  if (n > decay_samples) return min_lr;
  if (style == LrStyle::inverse_square_root)
    return std::max(min_lr, max_lr * std::sqrt(std::max(warm, 1.0)) / std::sqrt(std::max(samples, 1.0)));
  const double ratio = (samples - warm) / static_cast<double>(decay_samples - warmup_samples);
  double c = 1;
  if (style == LrStyle::linear) c = 1 - ratio;
  if (style == LrStyle::cosine) c = 0.5 * (std::cos(kPi * ratio) + 1);
  if (style == LrStyle::wsd) {
    const std::int64_t start = decay_samples - wsd_decay_samples;
    if (n > start) c = wsd_factor(wsd_style, static_cast<double>(n - start) / static_cast<double>(wsd_decay_samples));
  }
  return min_lr + c * (max_lr - min_lr);
}

double LrSchedule::weight_decay(std::int64_t n) const {
  if (weight_decay_style == LrStyle::constant || n >= weight_decay_samples) return end_weight_decay;
  const double ratio = static_cast<double>(n) / static_cast<double>(weight_decay_samples);
  const double c = weight_decay_style == LrStyle::linear ? ratio : 0.5 * (std::cos(kPi * (1 - ratio)) + 1);
  return start_weight_decay + c * (end_weight_decay - start_weight_decay);
}

Json to_json(const LrSchedule& s) {
  return {{"max_lr", s.max_lr},
          {"min_lr", s.min_lr},
          {"warmup_init", s.warmup_init},
          {"warmup_samples", s.warmup_samples},
          {"decay_samples", s.decay_samples},
          {"wsd_decay_samples", s.wsd_decay_samples},
          {"style", static_cast<int>(s.style)},
          {"wsd_style", static_cast<int>(s.wsd_style)},
          {"start_weight_decay", s.start_weight_decay},
          {"end_weight_decay", s.end_weight_decay},
          {"weight_decay_samples", s.weight_decay_samples},
          {"weight_decay_style", static_cast<int>(s.weight_decay_style)}};
}

namespace {

template <class E>
E enum_field(const Json& j, const char* key, E last, const std::string& where) {
  const int n = json_field<int>(j, key, where);
  if (n < 0 || n > static_cast<int>(last))
    throw Error(Code::corrupt, fmt::format("field '{}': wanted 0 to {}, found {}", key, static_cast<int>(last), n), where);
  return static_cast<E>(n);
}

}  // namespace

LrSchedule lr_schedule_from_json(const Json& j, const std::string& where) {
  LrSchedule s;
  s.max_lr = json_field<double>(j, "max_lr", where);
  s.min_lr = json_field<double>(j, "min_lr", where);
  s.warmup_init = json_field<double>(j, "warmup_init", where);
  s.warmup_samples = json_field<std::int64_t>(j, "warmup_samples", where);
  s.decay_samples = json_field<std::int64_t>(j, "decay_samples", where);
  s.wsd_decay_samples = json_field<std::int64_t>(j, "wsd_decay_samples", where);
  s.style = enum_field(j, "style", LrStyle::wsd, where);
  s.wsd_style = enum_field(j, "wsd_style", WsdStyle::minus_sqrt, where);
  s.start_weight_decay = json_field<double>(j, "start_weight_decay", where);
  s.end_weight_decay = json_field<double>(j, "end_weight_decay", where);
  s.weight_decay_samples = json_field<std::int64_t>(j, "weight_decay_samples", where);
  s.weight_decay_style = enum_field(j, "weight_decay_style", LrStyle::cosine, where);
  return s;
}

LrStyle parse_lr_style(const std::string& name) {
  return parse<LrStyle>(std::array{"constant", "linear", "cosine", "inverse-square-root", "WSD"}, name,
                        "lr-decay-style");
}

LrStyle parse_weight_decay_style(const std::string& name) {
  return parse<LrStyle>(std::array{"constant", "linear", "cosine"}, name, "weight-decay-incr-style");
}

WsdStyle parse_wsd_style(const std::string& name) {
  return parse<WsdStyle>(std::array{"exponential", "linear", "cosine", "minus_sqrt"}, name, "lr-wsd-decay-style");
}

}  // namespace mt
