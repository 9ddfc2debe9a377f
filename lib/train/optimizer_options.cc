#include "train/optimizer_options.h"

#include <cmath>

#include "base/error.h"
#include "train/flag_choice.h"

namespace mt {

namespace {

void complete_muon(TrainingOptions& o, std::vector<Problem>& problems) {
  const auto& names = o.optimizer_names;
  MuonOptions& m = o.optimizer.muon;
  require_choice("muon-tp-mode", names.muon_tp_mode, {"duplicated", "distributed", "blockwise"});
  require_choice("muon-scale-mode", names.muon_scale_mode, {"spectral", "unit_rms_norm", "shape_scaling"});
  require_choice("muon-coefficient-type", names.muon_coefficient_type, {"quintic", "simple"});
  m.blockwise = names.muon_tp_mode == "blockwise";
  m.scale = names.muon_scale_mode == "spectral"        ? MuonOptions::Scale::spectral
            : names.muon_scale_mode == "unit_rms_norm" ? MuonOptions::Scale::unit_rms_norm
                                                       : MuonOptions::Scale::shape_scaling;
  m.iteration.coefficients = names.muon_coefficient_type == "simple" ? NewtonSchulz::Coefficients::simple
                                                                     : NewtonSchulz::Coefficients::quintic;
  if (!fits(m.iteration))
    problems.push_back({fmt::format("muon-num-ns-steps {} with the quintic coefficients, which are made for 5 steps",
                                    m.iteration.steps),
                        "--muon-num-ns-steps 5, or --muon-coefficient-type simple"});
  if (m.momentum < 0 || m.momentum >= 1)
    problems.push_back({fmt::format("muon-momentum {} is not in [0, 1)", m.momentum), "--muon-momentum 0.9"});
  if (!std::isfinite(m.extra_scale) || m.extra_scale <= 0)
    problems.push_back({fmt::format("muon-extra-scale-factor {} is not a number above 0", m.extra_scale),
                        "--muon-extra-scale-factor 1"});
  if (o.optimizer.rule == UpdateRule::muon && m.blockwise && o.parallel.tp > 1)
    o.notices.push_back("--muon-tp-mode blockwise makes each tensor-parallel rank's part of a matrix orthogonal by "
                        "itself: results depend on tensor-model-parallel-size");
}

DType moment_dtype(const char* flag, const std::string& name) {
  require_choice(flag, name, {"fp32", "fp16", "bf16", "fp8"});
  return name == "fp32" ? DType::f32 : name == "fp16" ? DType::f16 : name == "bf16" ? DType::bf16 : DType::e4m3;
}

// Megatron's rules: it is AdamW's, over sharded state.
void complete_precision(TrainingOptions& o, std::vector<Problem>& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  const auto& n = o.optimizer_names;
  o.optimizer.adam.exp_avg = moment_dtype("exp-avg-dtype", n.exp_avg_dtype);
  o.optimizer.adam.exp_avg_sq = moment_dtype("exp-avg-sq-dtype", n.exp_avg_sq_dtype);
  require_choice("main-grads-dtype", n.main_grads_dtype, {"fp32", "bf16"});
  require_choice("main-params-dtype", n.main_params_dtype, {"fp32", "fp16"});
  if (n.main_params_dtype != "fp32") add("main-params-dtype fp16: master weights are f32", "--main-params-dtype fp32");
  if (n.main_grads_dtype == "bf16" && !o.grad_reduce_in_bf16)
    add("main-grads-dtype bf16, and gradients are summed in f32: the optimizer reads the sums", "--grad-reduce-in-bf16");
  for (const auto& [flag, value] : {std::pair{"main-grads-dtype", n.main_grads_dtype}, {"exp-avg-dtype", n.exp_avg_dtype},
                                    {"exp-avg-sq-dtype", n.exp_avg_sq_dtype}})
    if (value != "fp32" && !n.precision_aware)
      add(fmt::format("{} {} without use-precision-aware-optimizer", flag, value), "--use-precision-aware-optimizer");
  if (!n.precision_aware) return;
  if (o.optimizer.rule != UpdateRule::adam)
    add(fmt::format("use-precision-aware-optimizer with optimizer {}", n.rule), "--optimizer adam");
  if (o.parallel.zero_stage == 0)
    add("use-precision-aware-optimizer without sharded optimizer state", "--use-distributed-optimizer");
}

// State in host memory beside a GPU. On a CPU it is there without being asked.
void complete_host_state(TrainingOptions& o, std::vector<Problem>& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  const auto& n = o.optimizer_names;
  if (n.offload_fraction < 0 || n.offload_fraction > 1)
    add(fmt::format("optimizer-offload-fraction {} is not in [0, 1]", n.offload_fraction), "--optimizer-offload-fraction 1");
  if (!n.cpu_offload || o.device == "cpu") return;
  HostStateOptions& host = o.optimizer.host;
  host.share = n.offload_fraction;
  host.state = n.pin_cpu_params ? Memory::pinned : Memory::host;
  host.pieces = n.pin_cpu_grads ? Memory::pinned : Memory::host;
  if (o.optimizer.rule == UpdateRule::muon)
    add("optimizer-cpu-offload with optimizer muon, whose matrices are made orthogonal on the device", "--optimizer adam");
  for (const DType d : {o.optimizer.adam.exp_avg, o.optimizer.adam.exp_avg_sq})
    if (is_scaled(d)) {
      add("optimizer-cpu-offload with moments in fp16 or fp8, whose scales are found on the device", "--exp-avg-dtype bf16");
      break;
    }
}

}  // namespace

void complete_optimizer(TrainingOptions& o, std::vector<Problem>& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  const std::string& rule = o.optimizer_names.rule;
  if (rule == "soap") return add("optimizer soap is not here", "--optimizer muon");
  if (rule == "adaptive_muon" || rule == "dist_muon")
    return add(fmt::format("optimizer {} is not here", rule), "--optimizer muon, with --use-distributed-optimizer to share its work");
  OptimizerOptions& opt = o.optimizer;
  opt.rule = parse_update_rule(rule);
  if (opt.sgd_momentum < 0 || opt.sgd_momentum >= 1)
    add(fmt::format("sgd-momentum {} is not in [0, 1)", opt.sgd_momentum), "--sgd-momentum 0.9");
  const LionOptions& lion = opt.lion;
  if (lion.beta1 < 0 || lion.beta1 >= 1 || lion.beta2 < 0 || lion.beta2 >= 1)
    add("lion betas must be in [0, 1)", "--lion-beta1 0.95 --lion-beta2 0.98");
  complete_muon(o, problems);
  complete_precision(o, problems);
  complete_host_state(o, problems);
}

}  // namespace mt
