// mt-reshard: rewrite a checkpoint for another number of tensor- and data-parallel ranks.

#include <memory>

#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "ckpt/iterations.h"
#include "ckpt/one_save.h"
#include "ckpt/reshard.h"
#include "layout/validate.h"
#include "mt-reshard/boxes_of_layout.h"
#include "registry/event_log.h"
#include "registry/index.h"

namespace mt {
namespace {

constexpr int kMostRanks = 65536;  // more is a slip of the keys; each is a file

struct Arguments {
  std::string load, save, registry = "mt-runs.db";
  std::optional<std::int64_t> step;
  std::optional<int> tp, dp;
  int num_shards = 0;
  bool dry_run = false, force = false;
  Json resolved;
};

ParallelSpec new_parallel(const Arguments& a, const ModelSpec& model, const Json& specs, const std::string& where) {
  auto p = parallel_from_json(json_field<Json>(specs, "parallel", where), where);
  if (p.etp == p.tp) p.etp = a.tp.value_or(p.tp);  // it follows tp unless it was set apart
  p.tp = a.tp.value_or(p.tp);
  p.dp = a.dp.value_or(p.dp);
  if (p.tp == 1) p.sequence_parallel = false;
  if (p.dp * p.cp % p.optimizer_instances != 0) p.optimizer_instances = 1;  // a fact of the run, not of the files
  BatchSpec batch;  // the batch is not the checkpoint's: one that fits any dp
  batch.seq_length = p.tp * p.cp;
  batch.global_batch = p.dp;
  Limits limits;
  limits.max_pp = p.pp;
  limits.max_cp = p.cp;
  limits.max_zero_stage = p.zero_stage;
  require_valid(validate(model, p, batch, limits, 0));
  return p;
}

struct Plan {
  std::vector<std::vector<TensorBox>> owned;
  Json specs;
};

Plan make_plan(const Arguments& a, const Reader& reader) {
  const auto& m = reader.manifest();
  if (a.num_shards > 0) return {split_by_rows(m, a.num_shards), m.meta.specs};
  const auto where = (reader.dir() / kManifestName).string();
  if (!m.meta.specs.contains("model") || !m.meta.specs.contains("parallel"))
    throw Error(Code::config, "the checkpoint does not say what model it is of", where, "--num-shards N needs no model");
  Plan plan;
  plan.specs = m.meta.specs;
  const auto model = model_from_json(plan.specs["model"], where);
  const auto parallel = new_parallel(a, model, plan.specs, where);
  plan.owned = boxes_of_layout(m, model, parallel);
  plan.specs["parallel"] = to_json(parallel);
  return plan;
}

void print_plan(const Plan& plan, bool json) {
  if (!json) cli::row({"rank", "boxes", "bytes"});
  for (std::size_t rank = 0; rank < plan.owned.size(); ++rank) {
    std::uint64_t bytes = 0;
    for (const auto& b : plan.owned[rank]) bytes += b.bytes();
    if (json) cli::object({{"rank", rank}, {"boxes", plan.owned[rank].size()}, {"bytes", bytes}});
    else cli::row({std::to_string(rank), std::to_string(plan.owned[rank].size()), std::to_string(bytes)});
  }
}

int run(const Arguments& a, bool json) {
  if (a.load.empty()) throw Error(Code::usage, "no checkpoint to read", "--load");
  if (a.num_shards == 0 && !a.tp && !a.dp)
    throw Error(Code::usage, "no new layout", "",
                "give --target-tensor-parallel-size, --target-data-parallel-size or --num-shards");
  if (a.num_shards < 0 || a.tp.value_or(1) < 1 || a.dp.value_or(1) < 1)
    throw Error(Code::usage, "a layout has 1 or more ranks");
  for (const auto& [flag, n] : {std::pair("--num-shards", a.num_shards), {"--target-tensor-parallel-size", a.tp.value_or(1)},
                                {"--target-data-parallel-size", a.dp.value_or(1)}})
    if (n > kMostRanks) throw Error(Code::usage, fmt::format("{} is more than {}", n, kMostRanks), flag);
  if (const auto ranks = std::int64_t{a.tp.value_or(1)} * a.dp.value_or(1); ranks > kMostRanks)
    throw Error(Code::usage, fmt::format("{} ranks, at most {} are laid out", ranks, kMostRanks), "--target-data-parallel-size");
  if (a.num_shards > 0 && (a.tp || a.dp))
    throw Error(Code::usage, "--num-shards stands alone", "--num-shards");
  const auto from = resolve(a.load, a.step);
  for (const auto& text : from.ignored) log::info("ignored {}", text);
  const Reader reader(from.dir);
  const auto plan = make_plan(a, reader);
  if (a.dry_run) return print_plan(plan, json), 0;
  if (a.save.empty()) throw Error(Code::usage, "no directory to write to", "--save");

  std::error_code ec;
  const bool same = std::filesystem::equivalent(from.dir, std::filesystem::path(a.save) / from.dir.filename(), ec);
  if (same)
    throw Error(Code::config, "source and destination are the same checkpoint", a.save, "write to another directory");
  const OneSave lock(a.save, from.iteration, a.force);
  auto index = RunIndex::open(a.registry);
  const auto total = reader.manifest().tensor_bytes();
  Progress progress("resharding", total, "bytes");
  const auto start = Clock::now();
  const auto dir = reshard(reader, a.save, plan.owned, plan.specs, [&](std::uint64_t done) { progress.update(done); });
  progress.finish();
  const auto seconds = seconds_since(start);
  index.record({run_event("mt-reshard", cli::version(), a.resolved),
                {{"event", "checkpoint"}, {"iteration", from.iteration}, {"path", dir.string()}, {"bytes", total}, {"seconds", seconds}},
                end_event("done", seconds)});
  if (json)
    cli::object({{"from", from.dir.string()}, {"path", dir.string()}, {"iteration", from.iteration},
                 {"ranks", plan.owned.size()}, {"bytes", total}, {"seconds", seconds}});
  else {
    cli::row({"path", "ranks", "bytes", "seconds"});
    cli::row({dir.string(), std::to_string(plan.owned.size()), std::to_string(total), fmt::format("{:.2f}", seconds)});
  }
  return 0;
}

std::function<int()> build(OptionTable& table, const cli::Shared& shared) {
  auto a = std::make_shared<Arguments>();
  table.add("load", a->load, "DIRECTORY", "checkpoint to read: a --save directory (its tracker decides) or an iter_0000000");
  table.add("ckpt-step", a->step, "N", "iteration to take from a --save directory instead of the tracker's");
  table.add("save", a->save, "DIRECTORY", "where to write; another one than --load");
  table.add("force", a->force, "", "replace that iteration if it is there");
  table.group("New layout");
  table.add("target-tensor-parallel-size", a->tp, "N", "tensor-parallel ranks; as stored when not given");
  table.add("target-data-parallel-size", a->dp, "N", "data-parallel ranks; as stored when not given");
  table.add("num-shards", a->num_shards, "N", "instead: N files of about equal size by rows, whatever the model");
  table.add("dry-run", a->dry_run, "", "print boxes and bytes of each rank and write nothing");
  table.group("Record");
  table.add("registry", a->registry, "FILE", "registry to note this in; 'none' for none");
  return [a, &table, &shared] {
    a->resolved = table.resolved();
    return run(*a, shared.json);
  };
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-reshard";
  tool.summary = "Rewrite a checkpoint for another number of tensor- and data-parallel ranks.";
  tool.backends = "none needed";
  tool.commands = {{"", "Rewrite a checkpoint for another number of tensor- and data-parallel ranks.", mt::build}};
  return mt::cli::run(tool, argc, argv);
}
