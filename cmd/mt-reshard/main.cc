// mt-reshard: rewrite a checkpoint for another layout.

#include <algorithm>
#include <memory>

#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "ckpt/iterations.h"
#include "ckpt/one_save.h"
#include "ckpt/reshard.h"
#include "ckpt/plane_codec.h"
#include "mt-reshard/boxes_of_layout.h"
#include "mt-reshard/target_layout.h"
#include "registry/event_log.h"
#include "registry/index.h"

namespace mt {
namespace {

struct Arguments {
  std::string load, save, registry = "mt-runs.db", codec, dtype;
  std::optional<std::int64_t> step;
  TargetLayout target;
  int num_shards = 0;
  bool weights_only = false, dry_run = false, force = false;
  Json resolved;
};

struct Plan {
  std::vector<std::vector<TensorBox>> owned;
  Json specs;
};

Plan make_plan(const Arguments& a, const Reader& reader) {
  const auto& m = reader.manifest();
  if (a.num_shards > 0 || !a.target.given()) return {split_by_rows(m, std::max(1, a.num_shards)), m.meta.specs};
  const auto where = (reader.dir() / kManifestName).string();
  if (!m.meta.specs.contains("model") || !m.meta.specs.contains("parallel"))
    throw Error(Code::config, "the checkpoint does not say what model it is of", where, "--num-shards N needs no model");
  Plan plan;
  plan.specs = m.meta.specs;
  const auto model = model_from_json(plan.specs["model"], where);
  const auto parallel = parallel_of(a.target, parallel_from_json(json_field<Json>(plan.specs, "parallel", where), where), model);
  plan.owned = boxes_of_layout(m, model, parallel);
  plan.specs["parallel"] = to_json(parallel);
  return plan;
}

void keep_weights(Plan& plan) {
  for (auto& rank : plan.owned)
    rank.erase(std::remove_if(rank.begin(), rank.end(), [](const TensorBox& b) { return b.kind != "weight"; }), rank.end());
}

void convert_floats(Plan& plan, DType to) {
  for (auto& rank : plan.owned)
    for (auto& b : rank)
      if (convertible(b.dtype, to)) b.dtype = to;
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
  if (a.num_shards == 0 && !a.target.given() && !a.weights_only && a.codec.empty())
    throw Error(Code::usage, "no new layout", "", "give a --target-… size, --num-shards, --weights-only or --ckpt-codec");
  if (!a.dtype.empty() && !a.weights_only)
    throw Error(Code::usage, "another dtype is for weights alone; what the optimizer keeps must stay as it is", "--save-dtype",
                "add --weights-only");
  if (a.num_shards > 0 && a.target.given())
    throw Error(Code::usage, "--num-shards stands alone", "--num-shards");
  const auto from = resolve(a.load, a.step);
  for (const auto& text : from.ignored) log::info("ignored {}", text);
  ReaderOptions keeping;
  keeping.cached_chunks = kReshardChunks;
  const Reader reader(from.dir, keeping);
  auto plan = make_plan(a, reader);
  if (a.weights_only) keep_weights(plan);
  if (!a.dtype.empty()) convert_floats(plan, *parse_dtype(a.dtype));
  if (a.dry_run) return print_plan(plan, json), 0;
  if (a.save.empty()) throw Error(Code::usage, "no directory to write to", "--save");

  std::error_code ec;
  const bool same = std::filesystem::equivalent(from.dir, std::filesystem::path(a.save) / from.dir.filename(), ec);
  if (same)
    throw Error(Code::config, "source and destination are the same checkpoint", a.save, "write to another directory");
  const OneSave lock(a.save, from.iteration, a.force);
  auto index = RunIndex::open(a.registry);
  std::uint64_t total = 0;
  for (const auto& rank : plan.owned)
    for (const auto& b : rank) total += b.bytes();
  Progress progress("resharding", total, "bytes");
  const auto start = Clock::now();
  const Resharding resharding{plan.owned, plan.specs, a.weights_only, !a.dtype.empty(),
                              codec_of(a.codec.empty() ? "none" : a.codec)};
  const auto dir = reshard(reader, a.save, resharding, [&](std::uint64_t done, std::uint64_t) { progress.update(done); });
  progress.finish();
  if (const auto n = reader.num_overflowed(); n > 0)
    log::warn("{} finite elements are too large for {} and were stored as infinity", n, a.dtype);
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
  add_target_layout(table, a->target);
  table.add("num-shards", a->num_shards, "N", "instead: N files of about equal size by rows, whatever the model").between(0, kMostRanks);
  table.add("weights-only", a->weights_only, "", "leave out master weights and what the optimizer keeps");
  table.add("save-dtype", a->dtype, "NAME", "with --weights-only: store floats so, rounded to nearest even once").choices = {"f32", "bf16", "f16"};
  table.add("ckpt-codec", a->codec, "NAME", "pack what is written, without loss, or no longer").choices = {"none", kPlaneCodecName};
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
  tool.summary = "Rewrite a checkpoint for another layout.";
  tool.backends = "none needed";
  tool.commands = {{"", "Rewrite a checkpoint for another layout.", mt::build}};
  return mt::cli::run(tool, argc, argv);
}
