#include "options/training_flags.h"

namespace mt::options {

// What makes weights of gradients.
void add_update_rules(OptionTable& t, TrainingOptions& o) {
  OptimizerOptions& opt = o.optimizer;
  OptimizerNames& names = o.optimizer_names;
  t.group("Optimizer");
  t.add("optimizer", names.rule, "NAME", "adam (AdamW), sgd, lion, or muon (matrices of layers; the rest by AdamW)");
  t.add("clip-grad", opt.clip_grad, "X", "largest gradient norm; 0 or less: no clipping");
  t.add("adam-beta1", opt.adam.beta1, "X", "decay of the first moment").between(0, 1);
  t.add("adam-beta2", opt.adam.beta2, "X", "decay of the second moment").between(0, 1);
  t.add("adam-eps", opt.adam.eps, "X", "added to the root of the second moment").above(0);
  t.add("use-precision-aware-optimizer", names.precision_aware, "",
        "adam over sharded state: moments may be of the dtypes below");
  t.add("exp-avg-dtype", names.exp_avg_dtype, "NAME", "first moment in fp32, bf16, fp16 or fp8");
  t.add("exp-avg-sq-dtype", names.exp_avg_sq_dtype, "NAME", "second moment in fp32, bf16, fp16 or fp8");
  t.add("main-grads-dtype", names.main_grads_dtype, "NAME", "gradients the optimizer reads: fp32, or with --grad-reduce-in-bf16 bf16");
  t.add("main-params-dtype", names.main_params_dtype, "NAME", "master weights: fp32");
  t.add("optimizer-cpu-offload", names.cpu_offload, "", "with --device cuda: the optimizer's state in host memory, updated there");
  t.add("optimizer-offload-fraction", names.offload_fraction, "X", "share of the state that lies there").between(0, 1);
  t.add_off("no-pin-cpu-grads", names.pin_cpu_grads, "gradients and weights on their way through memory that is not pinned");
  t.add_off("no-pin-cpu-params", names.pin_cpu_params, "state there in memory that is not pinned");
  t.add("sgd-momentum", opt.sgd_momentum, "X", "sgd: decay of the momentum; 0: none is kept").between(0, 1);
  t.add("lion-beta1", opt.lion.beta1, "X", "lion: share of the momentum in the update").between(0, 1);
  t.add("lion-beta2", opt.lion.beta2, "X", "lion: decay of the momentum").between(0, 1);
  t.add("muon-momentum", opt.muon.momentum, "X", "muon: decay of the momentum").between(0, 1);
  t.add("muon-use-nesterov", opt.muon.nesterov, "", "muon: look ahead by one gradient");
  t.alias("muon-nesterov", "muon-use-nesterov");
  t.add_off("muon-no-split-qkv", opt.muon.split_qkv, "muon: query, key and value as one matrix");
  t.add("muon-num-ns-steps", opt.muon.iteration.steps, "N", "muon: Newton-Schulz steps", "steps").between(1, 100);
  t.add("muon-coefficient-type", names.muon_coefficient_type, "NAME", "muon: coefficients of the steps, quintic or simple");
  t.add("muon-scale-mode", names.muon_scale_mode, "NAME", "muon: spectral, unit_rms_norm or shape_scaling");
  t.add("muon-extra-scale-factor", opt.muon.extra_scale, "X", "muon: a further factor of the update").above(0);
  t.add("muon-tp-mode", names.muon_tp_mode, "NAME",
        "muon: whole matrices (duplicated, distributed), or a rank's part alone (blockwise)");
}

}  // namespace mt::options
