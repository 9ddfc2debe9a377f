#include "train/recompute_options.h"

#include <algorithm>

#include "base/error.h"
#include "layout/pipeline_split.h"
#include "train/flag_choice.h"
#include "train/trainer.h"

namespace mt {

namespace {

struct Module {
  const char* name;
  bool RecomputeSpec::* flag;  // null: what it names is not here
  const char* reason;
};

constexpr Module kModules[] = {
    {"core_attn", &RecomputeSpec::core_attn, nullptr},
    {"mlp", &RecomputeSpec::mlp, nullptr},
    {"layernorm", &RecomputeSpec::layernorm, nullptr},
    {"mlp_act", &RecomputeSpec::mlp_act, nullptr},
    {"moe_act", nullptr, "there are no experts; of a dense network it is mlp_act"},
    {"moe", nullptr, "there are no experts"},
    {"shared_experts", nullptr, "there are no experts"},
    {"mla_up_proj", nullptr, "there is no multi-latent attention"},
    {"gdn_norm_out", nullptr, "there are no gated delta networks"},
    {"gdp_in_proj", nullptr, "there are no gated delta networks"},
    {"gdp_qkv", nullptr, "there are no gated delta networks"},
    {"mhc", nullptr, "there are no hyper-connections"},
};

const Module& find_module(const std::string& name) {
  for (const Module& m : kModules)
    if (name == m.name) return m;
  throw Error(Code::usage, fmt::format("--recompute-modules '{}' is unknown", name), "",
              "some of core_attn, mlp, layernorm, mlp_act");
}

}  // namespace

RecomputeSpec recompute_spec_of(const TrainingOptions& o, std::vector<Problem>& problems) {
  const RecomputeOptions& r = o.recompute;
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  const std::size_t before = problems.size();
  if (!r.granularity.empty()) require_choice("recompute-granularity", r.granularity, {"selective", "full"});
  if (!r.method.empty()) require_choice("recompute-method", r.method, {"uniform", "block"});
  if (r.activations && r.granularity == "full")
    add("recompute-activations means selective, recompute-granularity is full", "one of them");
  const bool full = r.granularity == "full", selective = r.granularity == "selective" || r.activations;
  RecomputeSpec spec;
  if (!full && !r.method.empty())
    add("recompute-method is for recompute-granularity full", "--recompute-granularity full, or no method");
  if (!full && r.num_layers)
    add("recompute-num-layers is for recompute-granularity full", "--recompute-granularity full, or no number");
  if (!selective && !r.modules.empty())
    add("recompute-modules is for recompute-granularity selective", "--recompute-granularity selective");
  if (full && r.method.empty()) add("recompute-granularity full needs recompute-method", "--recompute-method uniform");
  if (full && !r.num_layers) add("recompute-granularity full needs recompute-num-layers", "--recompute-num-layers 1");
  if (r.num_layers && *r.num_layers < 1)
    add(fmt::format("recompute-num-layers is {}, must be at least 1", *r.num_layers), "--recompute-num-layers 1");
  if (full && r.num_layers && *r.num_layers >= 1) {
    const auto stages = layers_of_stages(o.parallel, model_of(o).num_layers());
    const int most = std::max(1, *std::max_element(stages.begin(), stages.end()));
    if (*r.num_layers > most)
      add(fmt::format("recompute-num-layers {} is more than the {} layer{} of the largest stage", *r.num_layers, most,
                      most == 1 ? "" : "s"),
          fmt::format("--recompute-num-layers {}", most));
  }
  for (const auto& name : r.modules) {
    const Module& m = find_module(name);
    if (m.flag == nullptr) add(fmt::format("recompute-modules {}: {}", name, m.reason), "core_attn, mlp, layernorm, mlp_act");
    else spec.*m.flag = true;
  }
  if (selective && r.modules.empty()) spec.core_attn = true;
  if (r.distribute_saved) {
    const auto& p = o.parallel;
    if (!full) add("distribute-saved-activations is for recompute-granularity full", "--recompute-granularity full");
    if (p.tp < 2) add("distribute-saved-activations without tensor parallelism", "--tensor-model-parallel-size 2");
    if (p.sequence_parallel)
      add("distribute-saved-activations with sequence-parallel, which shards them already", "one of them");
    const std::int64_t tokens = o.batch.tokens_per_micro_batch(), hidden = model_of(o).hidden;
    if (p.tp > 1 && tokens * hidden % p.tp != 0)
      add(fmt::format("distribute-saved-activations: {} x {} activations do not divide by tensor-model-parallel-size {}",
                      tokens, hidden, p.tp), "another --micro-batch-size");
  }
  if (problems.size() > before) return {};
  spec.granularity = full ? RecomputeSpec::Granularity::full
                     : selective ? RecomputeSpec::Granularity::selective
                                 : RecomputeSpec::Granularity::none;
  spec.method = r.method == "block" ? RecomputeSpec::Method::block : RecomputeSpec::Method::uniform;
  spec.num_layers = r.num_layers.value_or(1);
  spec.distribute_saved = r.distribute_saved;
  return spec;
}

void complete_host_layers(TrainingOptions& o, std::vector<Problem>& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  if (o.host_layers == 0) return;
  const auto stages = layers_of_stages(o.parallel, model_of(o).num_layers());
  const int most = std::max(1, *std::max_element(stages.begin(), stages.end()));
  if (o.host_layers < 0 || o.host_layers > most)
    add(fmt::format("cpu-offloading-num-layers {} is not in 0 to {}, the layers of the largest stage", o.host_layers, most),
        fmt::format("--cpu-offloading-num-layers {}", most));
  if (o.device == "cpu") o.host_layers = 0;  // they are there already
  if (o.host_layers == 0) return;
  if (!o.recompute.granularity.empty() || o.recompute.activations)
    add("cpu-offloading-num-layers with recompute: what is made again is not kept anywhere", "one of them");
  if (o.emulated_ms) add("emulate-compute with cpu-offloading-num-layers: nothing is saved", "no --cpu-offloading-num-layers");
}

}  // namespace mt
