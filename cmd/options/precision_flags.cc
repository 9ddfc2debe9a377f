#include "options/training_flags.h"

namespace mt::options {

void add_precision(OptionTable& t, TrainingOptions& o) {
  t.group("Precision");
  t.add("bf16", o.bf16, "", "bf16 weights and activations, f32 master weights and gradients");
  t.add("fp16", o.fp16, "", "the same in f16, with a loss scale");
  t.add("grad-reduce-in-bf16", o.grad_reduce_in_bf16, "", "with --bf16: accumulate and sum gradients in bf16");
  t.add("accumulate-allreduce-grads-in-fp32", o.accumulate_allreduce_grads_in_fp32, "",
        "gradients in f32, which is the default");
  t.add("loss-scale", o.loss_scale.fixed, "X", "a fixed loss scale; default with --fp16: one that moves").above(0);
  t.add("initial-loss-scale", o.loss_scale.initial, "X", "where a moving loss scale starts").above(0);
  t.add("min-loss-scale", o.loss_scale.min, "X", "what it never falls below").above(0);
  t.add("loss-scale-window", o.loss_scale.window, "N", "it doubles after N steps without overflow", "steps").at_least(1);
  t.add("hysteresis", o.loss_scale.hysteresis, "N", "overflows before it halves", "steps").at_least(1);
  t.add("fp32-residual-connection", o.model.fp32_residual_connection, "",
        "the residual stream in f32, whatever the layers compute in");
  Fp8Options& f = o.fp8;
  t.add("fp8-format", f.format, "NAME", "round the operands of the layers' products: e4m3, or hybrid (gradients e5m2)");
  t.add("fp8-recipe", f.recipe, "NAME", "where their scales come from: delayed, tensorwise or blockwise");
  t.add("fp8-margin", f.margin, "N", "powers of two left free above the largest magnitude").between(0, 16);
  t.add("fp8-amax-history-len", f.amax_history_len, "N", "delayed: steps looked back", "steps").between(1, 65536);
  t.add("fp8-amax-compute-algo", f.amax_compute_algo, "NAME", "delayed: most_recent of them, or max");
  t.add_off("no-fp8-wgrad", f.weight_gradients, "weight gradients from unrounded operands");
  t.add("first-last-layers-bf16", f.first_last_layers_bf16, "", "no fp8 in the first and last layers");
  t.add("num-layers-at-start-in-bf16", f.num_layers_at_start_in_bf16, "N", "how many first ones", "layers").at_least(0);
  t.add("num-layers-at-end-in-bf16", f.num_layers_at_end_in_bf16, "N", "how many last ones", "layers").at_least(0);
}

void add_recompute(OptionTable& t, TrainingOptions& o) {
  RecomputeOptions& r = o.recompute;
  t.group("Recompute, offload and graphs");
  t.add("recompute-granularity", r.granularity, "NAME",
        "selective: some modules of every layer; full: whole layers; default none");
  t.add("recompute-method", r.method, "NAME", "full: uniform, groups over all layers; block, the first layers of a stage");
  t.add("recompute-num-layers", r.num_layers, "N", "full: layers of a group, or layers of a stage", "layers");
  t.add("recompute-modules", r.modules, "NAME", "selective: core_attn (default), mlp, layernorm, mlp_act").multiple = true;
  t.add("recompute-activations", r.activations, "", "the old name of --recompute-granularity selective");
  t.add("distribute-saved-activations", r.distribute_saved, "", "full: shard the kept inputs of layers over tp");
  t.add("cpu-offloading-num-layers", o.host_layers, "N",
        "with --device cuda: saved tensors of the first N layers of a stage in host memory", "layers").at_least(0);
  t.add("cuda-graph-impl", o.cuda_graph_impl, "NAME", "with --device cuda: none, or local, a graph for each forward and backward");
  t.add("cuda-graph-warmup-steps", o.cuda_graph_warmup_steps, "N", "local: times one runs before it is a graph").at_least(1);
}

}  // namespace mt::options
