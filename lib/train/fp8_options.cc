#include "train/fp8_options.h"

#include "train/flag_choice.h"

namespace mt {

Fp8Spec fp8_spec_of(const TrainingOptions& o) {
  const Fp8Options& f = o.fp8;
  Fp8Spec spec;
  if (f.format.empty()) return spec;
  require_choice("fp8-format", f.format, {"e4m3", "hybrid"});
  require_choice("fp8-recipe", f.recipe, {"delayed", "tensorwise", "blockwise", "mxfp8", "custom"});
  require_choice("fp8-amax-compute-algo", f.amax_compute_algo, {"most_recent", "max"});
  spec.recipe = f.recipe == "tensorwise" ? Fp8Spec::Recipe::tensorwise
                : f.recipe == "blockwise" ? Fp8Spec::Recipe::blockwise
                                          : Fp8Spec::Recipe::delayed;
  spec.hybrid = f.format == "hybrid";
  spec.margin = f.margin;
  spec.history = f.amax_history_len;
  spec.most_recent = f.amax_compute_algo == "most_recent";
  spec.weight_gradients = f.weight_gradients;
  if (f.first_last_layers_bf16) {
    spec.first_bf16 = f.num_layers_at_start_in_bf16;
    spec.last_bf16 = f.num_layers_at_end_in_bf16;
  }
  // Weights that come and go (ZeRO 3) leave nothing behind, a graph launches the same kernels for every micro-batch, and of a
  // single one each copy is read once anyway.
  spec.keep_weights = o.parallel.zero_stage < 3 && o.graph_warmup == 0 &&
                      o.batch.global_batch > std::int64_t{o.batch.micro_batch} * o.parallel.dp;
  return spec;
}

void add_fp8_problems(const TrainingOptions& o, const ModelSpec& model, std::vector<Problem>& problems) {
  if (!model.fp8.on()) return;
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  if (!o.bf16) add("fp8-format rounds the operands of a bf16 run", "--bf16");
  if (o.fp8.recipe == "mxfp8" || o.fp8.recipe == "custom")
    add(fmt::format("fp8-recipe {} is not here", o.fp8.recipe), "delayed, tensorwise or blockwise");
  if (o.fp8.first_last_layers_bf16 &&
      std::int64_t{model.fp8.first_bf16} + model.fp8.last_bf16 > model.num_layers())
    add(fmt::format("num-layers-at-start-in-bf16 {} and num-layers-at-end-in-bf16 {} are more than num-layers {}",
                    model.fp8.first_bf16, model.fp8.last_bf16, model.num_layers()),
        "smaller ones, or no --fp8-format");
  if (o.fp8.first_last_layers_bf16 && model.fp8.recipe == Fp8Spec::Recipe::delayed)
    add("first-last-layers-bf16 with fp8-recipe delayed, whose histories cover all layers", "--fp8-recipe tensorwise");
  if (model.fp8.recipe != Fp8Spec::Recipe::blockwise || o.parallel.tp < 2) return;
  // Blocks must not be cut by ranks, or their scales would depend on the layout.
  for (const auto& row : model.decoder().rows) {
    const std::int64_t width = row.kind == RowKind::attention ? std::int64_t{row.attention.heads} * row.attention.head_dim
                                                              : row.ffn.ffn_hidden;
    const std::int64_t kv = row.kind == RowKind::attention ? std::int64_t{row.attention.kv_heads} * row.attention.head_dim
                                                           : width;
    for (const std::int64_t w : {width, kv})
      if (row.fp8 && (w / o.parallel.tp % 128 != 0 || w % o.parallel.tp != 0)) {
        add(fmt::format("fp8-recipe blockwise: {} features over tensor-model-parallel-size {} are not whole blocks of 128",
                        w, o.parallel.tp),
            "--fp8-recipe tensorwise, or a smaller tensor-model-parallel-size");
        return;
      }
  }
}

}  // namespace mt
