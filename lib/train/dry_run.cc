#include "train/dry_run.h"

#include "base/cli.h"
#include "base/log.h"
#include "engine/checkpoint.h"
#include "layout/param_spec.h"
#include "plan/memory.h"
#include "train/pipeline_schedule.h"
#include "train/trainer.h"

namespace mt {

namespace {

std::string list_text(const std::vector<int>& ranks) {
  std::string s;
  for (int r : ranks) s += fmt::format("{}{}", s.empty() ? "" : ",", r);
  return s;
}

Json rank_json(int rank, std::int64_t parameters, const MemoryPlan& m) {
  return {{"rank", rank},
          {"parameters", parameters},
          {"weight_bytes", m.weight_bytes},
          {"grad_bytes", m.grad_bytes},
          {"optimizer_bytes", m.optimizer_bytes},
          {"activation_bytes", m.activation_bytes},
          {"scratch_bytes", m.scratch_bytes + m.other_bytes},
          {"total_bytes", m.total()}};
}

}  // namespace

int dry_run(const TrainingOptions& given, int world, bool json) {
  const TrainingOptions o = complete_options(given, world);
  for (const auto& notice : o.notices) log::warn("{}", notice);
  const ModelSpec model = model_of(o);
  const Placement placement = place(o.parallel);
  const DType compute = o.compute();
  Json out{{"layout", to_json(o.parallel)},
           {"world_size", o.parallel.world()},
           {"parameters", num_parameters(model)},
           {"vocab_size", model.vocab_size},
           {"padded_vocab_size", padded_vocab(model, o.parallel.tp)},
           {"micro_batches", o.batch.num_micro_batches(o.parallel)}};
  std::vector<Lane> lanes;  // by pipeline rank
  for (int r = 0; r < o.parallel.pp; ++r) lanes.push_back(work_of(o, r).lane);
  Json ranks = Json::array();
  for (int r = 0; r < o.parallel.world(); ++r) {
    const auto& at = placement.coordinates[static_cast<std::size_t>(r)];
    std::int64_t parameters = 0;
    for (const auto& spec : param_specs(model, o.parallel, at))
      for (const auto& piece : spec.pieces) parameters += piece.box.size();
    ranks.push_back(rank_json(r, parameters, plan_memory(model, o.parallel, o.batch, at, compute,
                                                      lanes[static_cast<std::size_t>(at.pp)])));
    if (o.async_save) {
      const auto snapshot = bytes_to_write(model, o.parallel, at, compute);
      ranks.back()["snapshot_bytes"] = snapshot;
      ranks.back()["total_bytes"] = ranks.back()["total_bytes"].get<std::uint64_t>() + snapshot;
    }
  }
  Json stages = Json::array();
  for (const auto& s : stage_map(o.parallel, model.num_layers()))
    stages.push_back({{"stage", s.stage}, {"pp_rank", s.pp_rank}, {"chunk", s.chunk}, {"layers", s.layers},
                      {"holds", s.holds}});
  Json groups = Json::object();
  for (const auto& g : all_groups(placement)) groups[g.name] = g.groups;
  if (json) {
    out["stages"] = stages;
    out["groups"] = groups;
    out["ranks"] = ranks;
    cli::object(out);
    return 0;
  }
  cli::row({"layout", parallel_text(o.parallel)});
  for (const char* key : {"world_size", "parameters", "vocab_size", "padded_vocab_size", "micro_batches"})
    cli::row({key, out[key].dump()});
  for (const auto& s : stages)
    cli::row({"stage", s["stage"].dump(), "pp " + s["pp_rank"].dump(), "chunk " + s["chunk"].dump(), s["holds"]});
  for (const auto& g : all_groups(placement)) {
    std::vector<std::string> fields{"group", g.name};
    for (const auto& ranks_of : g.groups) fields.push_back(list_text(ranks_of));
    cli::row(fields);
  }
  for (const auto& r : ranks) {
    std::vector<std::string> fields{"rank"};
    for (const auto& [key, value] : r.items()) fields.push_back(key == "rank" ? value.dump() : key + "=" + value.dump());
    cli::row(fields);
  }
  return 0;
}

}  // namespace mt
