#include "mt-reshard/target_layout.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "layout/pipeline_split.h"
#include "layout/validate.h"

namespace mt {

namespace {

constexpr const char* kStrategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};  // by ZeRO stage

bool has_experts(const ModelSpec& model) {
  const auto& rows = model.decoder().rows;
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.kind == RowKind::moe; });
}

int experts_of(const ModelSpec& model) {
  int n = 0;
  for (const auto& r : model.decoder().rows)
    if (r.kind == RowKind::moe) n = std::max(n, r.moe.experts);
  return n;
}

// Problems say the flags of a run. Here those of the new layout stand for them, and the model stays as it is.
void say_as_target(std::vector<Problem>& problems) {
  const std::pair<std::string, std::string> names[] = {{"tensor-model-parallel-size", "target-tensor-parallel-size"},
                                                       {"pipeline-model-parallel-", "target-pipeline-parallel-"},
                                                       {"target-pipeline-parallel-layout", "target-pipeline-model-parallel-layout"},
                                                       {"expert-model-parallel-size", "target-expert-parallel-size"},
                                                       {"num-virtual-stages", "target-num-virtual-stages"},
                                                       {"data-parallel-size", "target-data-parallel-size"}};
  const auto rename = [&](std::string text) {
    for (const auto& [from, to] : names)
      for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        const bool already = to.size() > from.size() && at + from.size() >= to.size() &&
                             text.compare(at + from.size() - to.size(), to.size(), to) == 0;
        if (!already) text.replace(at, from.size(), to);
      }
    return text;
  };
  for (auto& p : problems) {
    std::string near;
    for (std::size_t from = 0; from < p.nearest.size();) {
      const auto next = std::min(p.nearest.find(", or ", from), p.nearest.size());
      const auto one = p.nearest.substr(from, next - from);
      const bool of_layout = one.find("parallel") != std::string::npos || one.find("pp·vpp") != std::string::npos;
      if (of_layout) near += (near.empty() ? "" : ", or ") + rename(one);
      from = next + 5;
    }
    p = {rename(p.what), near.empty() ? "another layout" : near};
  }
}

}  // namespace

void add_target_layout(OptionTable& table, TargetLayout& t) {
  table.group("New layout");
  const auto degree = [&](const char* name, std::optional<int>& value, const char* words) {
    table.add(name, value, "N", words).between(1, kMostRanks);
  };
  degree("target-tensor-parallel-size", t.tp, "tensor-parallel ranks; as stored when not given");
  degree("target-pipeline-parallel-size", t.pp, "pipeline ranks; as stored when not given");
  degree("target-num-virtual-stages-per-pipeline-rank", t.vpp, "model chunks a pipeline rank holds; 1 with a new depth");
  table.add("target-pipeline-model-parallel-layout", t.stages, "STAGES",
            "layers of every stage, as Et*3|(tt|)*3tL; even when not given");
  table.add("target-v-shape", t.v_shape, "", "of two chunks a rank the second runs back, as zb-v and dualpipe-v have it");
  degree("target-data-parallel-size", t.dp, "data-parallel ranks; as stored when not given");
  table.add("target-data-parallel-sharding-strategy", t.sharding, "NAME", "what data-parallel ranks share; as stored when not given")
      .choices.assign(std::begin(kStrategies), std::end(kStrategies));
  degree("target-expert-parallel-size", t.ep, "ranks that share the experts; as stored when not given");
  degree("target-expert-tensor-parallel-size", t.etp, "ranks that share an expert; follows the tensor-parallel ranks");
}

ParallelSpec parallel_of(const TargetLayout& t, ParallelSpec p, const ModelSpec& model) {
  const bool followed = p.etp == p.tp;
  p.tp = t.tp.value_or(p.tp);
  p.etp = t.etp.value_or(followed ? p.tp : p.etp);
  p.ep = t.ep.value_or(p.ep);
  p.dp = t.dp.value_or(p.dp);
  const bool other_depth = t.pp && *t.pp != p.pp;
  if (t.pp || t.vpp || t.v_shape || !t.stages.empty()) {
    p.pp = t.pp.value_or(p.pp);
    p.vpp = t.vpp.value_or(t.v_shape ? 2 : other_depth ? 1 : p.vpp);
    p.v_shape = t.v_shape;
    p.stage_layers.clear();
  }
  if (!t.sharding.empty())
    p.zero_stage = static_cast<int>(std::find(std::begin(kStrategies), std::end(kStrategies), t.sharding) - kStrategies);
  p.sequence_parallel = p.tp > 1 && (p.sequence_parallel || has_experts(model));
  if (p.zero_stage == 0 || p.dp * p.cp % p.optimizer_instances != 0) p.optimizer_instances = 1;
  if (std::int64_t ranks = std::int64_t{p.tp} * p.cp * p.pp; ranks > kMostRanks || ranks * p.dp > kMostRanks)
    throw Error(Code::usage, fmt::format("{} ranks, at most {} are laid out", ranks * p.dp, kMostRanks), "--target-data-parallel-size");
  PipelineSplit split;
  split.layout = t.stages;
  auto problems = t.stages.empty() ? std::vector<Problem>{} : split_stages(split, model.num_layers(), p);
  if (t.v_shape && p.vpp != 2)
    problems.push_back({fmt::format("target-v-shape with {} chunks a rank", p.vpp), "target-num-virtual-stages-per-pipeline-rank 2"});
  BatchSpec batch;  // the batch is not the checkpoint's: one that fits any dp
  batch.seq_length = p.tp * p.cp;
  batch.global_batch = p.dp;
  Limits limits;
  limits.max_pp = p.pp;
  limits.max_cp = p.cp;
  limits.max_ep = p.ep;
  limits.max_etp = p.etp;
  limits.max_experts = experts_of(model);
  limits.max_zero_stage = p.zero_stage;
  limits.any_model = true;
  for (auto& more : validate(model, p, batch, limits, 0)) problems.push_back(std::move(more));
  say_as_target(problems);
  require_valid(problems);
  return p;
}

}  // namespace mt
