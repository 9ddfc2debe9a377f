#pragma once
// Learning rate and weight decay as pure functions of consumed samples, Megatron's formulas.
//
//   n  consumed samples at the step    W  warm-up samples    D  decay samples
// Source: Megatron-LM optimizer_param_scheduler.py. Code: optim/lr_schedule.cc. Tests: tests/optim/lr_schedule_test.cc.

#include <cstdint>
#include <string>

#include "base/json.h"

namespace mt {

enum class LrStyle : std::uint8_t { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdStyle : std::uint8_t { exponential, linear, cosine, minus_sqrt };

struct LrSchedule {
  double max_lr = 0, min_lr = 0, warmup_init = 0;
  std::int64_t warmup_samples = 0, decay_samples = 0, wsd_decay_samples = 0;
  LrStyle style = LrStyle::linear;
  WsdStyle wsd_style = WsdStyle::exponential;
  double start_weight_decay = 0.01, end_weight_decay = 0.01;
  std::int64_t weight_decay_samples = 0;
  LrStyle weight_decay_style = LrStyle::constant;  // constant, linear or cosine

  // n ≤ W and W > 0: init + (max − init)·n/W. Past D: min. Between, r = (n − W)/(D − W), by style.
  double learning_rate(std::int64_t n) const;
  double weight_decay(std::int64_t n) const;
};

// Round trip for the training state of a checkpoint.   fails  Error{corrupt} naming the field
Json to_json(const LrSchedule& schedule);
LrSchedule lr_schedule_from_json(const Json& json, const std::string& where);

// By Megatron's names: "constant", "linear", "cosine", "inverse-square-root", "WSD"; "exponential", "minus_sqrt", ….
//   fails  Error{usage} listing the names
LrStyle parse_lr_style(const std::string& name);
LrStyle parse_weight_decay_style(const std::string& name);  // "constant", "linear", "cosine"
WsdStyle parse_wsd_style(const std::string& name);

}  // namespace mt
