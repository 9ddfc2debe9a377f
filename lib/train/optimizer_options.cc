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
}

}  // namespace mt
