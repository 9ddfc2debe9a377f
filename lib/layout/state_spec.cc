#include "layout/state_spec.h"

#include "base/error.h"

namespace mt {

namespace {

constexpr const char* kRules[] = {"adam", "sgd", "lion", "muon"};

}  // namespace

const char* update_rule_name(UpdateRule rule) { return kRules[static_cast<int>(rule)]; }

UpdateRule parse_update_rule(const std::string& name) {
  std::string all;
  for (int i = 0; i < 4; ++i) {
    if (name == kRules[i]) return static_cast<UpdateRule>(i);
    all += fmt::format("{}{}", i == 0 ? "" : ", ", kRules[i]);
  }
  throw Error(Code::usage, fmt::format("--optimizer '{}' is not here", name), "", "one of " + all);
}

std::string state_name(const StateSpec& state) {
  const std::string name = update_rule_name(state.rule);
  return state.rule == UpdateRule::sgd && !state.momentum ? name + " without momentum" : name;
}

bool is_layer_matrix(const ParamSpec& spec) {
  return spec.shape.size() == 2 && spec.name.starts_with("decoder.layers.");
}

bool is_scaled(DType moment) { return moment == DType::f16 || moment == DType::e4m3; }

std::string scale_kind(const std::string& kind) { return kind + "_scale"; }

std::vector<std::string> scale_kinds(const StateSpec& state) {
  std::vector<std::string> out;
  if (state.rule != UpdateRule::adam) return out;
  if (is_scaled(state.exp_avg)) out.emplace_back("exp_avg_scale");
  if (is_scaled(state.exp_avg_sq)) out.emplace_back("exp_avg_sq_scale");
  return out;
}

std::vector<StateKind> state_kinds(const StateSpec& state, const ParamSpec& spec) {
  switch (state.rule) {
    case UpdateRule::sgd:
      if (!state.momentum) return {};
      return {{"momentum_buffer", DType::f32}};
    case UpdateRule::lion: return {{"exp_avg", DType::f32}};
    case UpdateRule::muon:
      if (is_layer_matrix(spec)) return {{"momentum_buffer", DType::f32}};
      break;
    case UpdateRule::adam: return {{"exp_avg", state.exp_avg}, {"exp_avg_sq", state.exp_avg_sq}};
  }
  return {{"exp_avg", DType::f32}, {"exp_avg_sq", DType::f32}};
}

}  // namespace mt
