#include "train/dry_run.h"

#include <map>
#include <tuple>

#include "base/cli.h"
#include "base/log.h"
#include "engine/checkpoint.h"
#include "layout/flops.h"
#include "layout/param_spec.h"
#include "train/pipeline_schedule.h"
#include "train/rank_memory.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/trainer.h"

namespace mt {

namespace {

// What is the same for many ranks: data- and context-parallel ones, and tensor-parallel ones but for where the padding of
// the vocabulary falls.
class RankSizes {
 public:
  RankSizes(const TrainingOptions& o, const ModelSpec& model) : o_(o), model_(model), lanes_(sample_lanes(o)) {}

  const Json& of(const Coordinate& at) {
    const std::int64_t rows = padded_vocab(model_, o_.parallel.tp) / o_.parallel.tp;
    const std::int64_t real = std::clamp<std::int64_t>(model_.vocab_size - rows * at.tp, 0, rows);
    // Shares of a snapshot differ by a row from replica to replica; of a large world the first one's stands for all.
    // So do the matrices that ranks of Muon gather, and the state that lies in host memory.
    const bool each = (o_.async_save || o_.optimizer.rule == UpdateRule::muon || o_.optimizer.host.share > 0) &&
                      o_.parallel.world() <= kMostShares;
    auto [it, fresh] = known_.try_emplace({at.pp, real, each ? at.tp : 0, each ? at.cp + o_.parallel.cp * at.dp : 0});
    if (fresh) it->second = compute(at);
    return it->second;
  }

 private:
  Json compute(const Coordinate& at) const {
    std::int64_t parameters = 0;
    for (const auto& spec : param_specs(model_, o_.parallel, at))
      for (const auto& piece : spec.pieces) parameters += piece.box.size();
    const StateSpec state = o_.state();
    const MemoryPlan m =
        rank_memory(o_, model_, at, lanes_[static_cast<std::size_t>(at.pp)]);
    Json j{{"parameters", parameters},
            {"weight_bytes", m.weight_bytes},
            {"grad_bytes", m.grad_bytes},
            {"optimizer_bytes", m.optimizer_bytes},
            {"bucket_bytes", m.bucket_bytes},
            {"activation_bytes", m.activation_bytes},
            {"scratch_bytes", m.scratch_bytes + m.other_bytes},
            {"total_bytes", m.total()}};
    if (m.fp8_weight_bytes > 0) j["fp8_weight_bytes"] = m.fp8_weight_bytes;
    if (m.host_bytes > 0) j["host_bytes"] = m.host_bytes;
    if (o_.async_save) {
      const auto snapshot = static_cast<std::uint64_t>(bytes_to_write(model_, o_.parallel, at, state));
      j["snapshot_bytes"] = snapshot;
      const char* where = o_.device == "cpu" ? "total_bytes" : "host_bytes";
      j[where] = j.value(where, std::uint64_t{0}) + snapshot;
    }
    return j;
  }

  const TrainingOptions& o_;
  const ModelSpec& model_;
  std::vector<Lane> lanes_;
  static constexpr int kMostShares = 1024;
  std::map<std::tuple<int, std::int64_t, int, int>, Json> known_;
};

void append_list(std::string& text, const std::vector<int>& ranks) {
  char digits[16];
  bool first = true;
  for (const int r : ranks) {
    if (!first) text += ',';
    text.append(digits, fmt::format_to(digits, "{}", r));
    first = false;
  }
}

// Worlds up to this are printed rank by rank, larger ones with equal ranks as one.
constexpr std::size_t kRanksListed = 128, kGroupsShown = 8;

// "0-7", "0-56/8" (every eighth), "0,3,4".
std::string folded(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    const int step = end < ranks.size() ? ranks[end] - ranks[i] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    if (end - i < 3) end = i + 1;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (end - i >= 3) text += fmt::format("-{}", ranks[end - 1]);
    if (end - i >= 3 && step != 1) text += fmt::format("/{}", step);
    i = end;
  }
  return text;
}

// What the layout knows and the trainer does not.
Json not_trainable(const TrainingOptions& o) {
  Json all = Json::array();
  const auto note = [&all](const char* name, int value, int trainable) {
    if (value > trainable) all.push_back(fmt::format("{} {}", name, value));
  };
  note("context-parallel-size", o.parallel.cp, 1);
  note("num-experts", o.model.num_experts, 0);
  note("expert-model-parallel-size", o.parallel.ep, 1);
  if (o.parallel.etp != o.parallel.tp) note("expert-tensor-parallel-size", o.parallel.etp, 1);
  return all;
}

Json stages_json(const TrainingOptions& o, const ModelSpec& model) {
  Json stages = Json::array();
  for (const auto& s : stage_map(o.parallel, model.num_layers()))
    stages.push_back({{"stage", s.stage}, {"pp_rank", s.pp_rank}, {"chunk", s.chunk}, {"layers", s.layers},
                      {"holds", s.holds}});
  return stages;
}

void print_text(const Json& head, const Placement& placement, RankSizes& sizes) {
  for (const auto& [key, value] : head.items()) {
    if (key == "stages" || key == "data" || key == "start") continue;
    if (value.is_array())
      for (const auto& v : value) cli::row({key, v.get<std::string>()});
    else
      cli::row({key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  for (const auto& s : head["stages"])
    cli::row({"stage", s["stage"].dump(), "pp " + s["pp_rank"].dump(), "chunk " + s["chunk"].dump(), s["holds"]});
  for (const char* key : {"start", "data"})
    cli::row({key, head[key]["checked"].get<bool>() ? "checked" : "not checked", head[key]["words"].get<std::string>()});
  for (const auto& member : head["data"]["sets"]) {
    std::vector<std::string> cells{"data"};
    for (const auto& [key, value] : member.items()) {
      if (value.is_string()) cells.push_back(value.get<std::string>());
      else cells.push_back(key + "=" + (value.is_number_float() ? fmt::format("{:.3f}", value.get<double>()) : value.dump()));
    }
    cli::row(cells);
  }
  const bool fold = placement.coordinates.size() > kRanksListed;
  for (const auto& name : group_names(placement.spec)) {
    const auto groups = named_groups(placement, name).groups;
    std::string line = "group\t" + name;
    for (std::size_t i = 0; i < (fold ? std::min(groups.size(), kGroupsShown) : groups.size()); ++i) {
      line += '\t';
      if (fold) line += folded(groups[i]);
      else append_list(line, groups[i]);
    }
    if (fold && groups.size() > kGroupsShown) line += fmt::format("\tand {} more", groups.size() - kGroupsShown);
    cli::part(line + "\n");
  }
  std::vector<std::pair<std::string, std::vector<int>>> alike;  // what ranks need, and which ones, in their order
  std::map<const Json*, std::size_t> place;
  std::map<std::string, std::size_t> place_of_text;
  for (std::size_t r = 0; r < placement.coordinates.size(); ++r) {
    const Json& mine = sizes.of(placement.coordinates[r]);
    auto [known, fresh] = place.try_emplace(&mine, alike.size());
    if (fresh) {
      std::string text;
      for (const auto& [key, value] : mine.items()) text += "\t" + key + "=" + value.dump();
      known->second = place_of_text.try_emplace(text, alike.size()).first->second;
      if (known->second == alike.size()) alike.push_back({std::move(text), {}});
    }
    alike[known->second].second.push_back(static_cast<int>(r));
  }
  for (const auto& [text, ranks] : alike)
    for (std::size_t i = 0; i < (fold ? 1 : ranks.size()); ++i)
      cli::part(fold ? fmt::format("rank\t{}\tranks={}{}\n", folded(ranks), ranks.size(), text)
                     : fmt::format("rank\t{}{}\n", ranks[i], text));
}

// One object, written piece by piece: lists of a million ranks are never whole in memory.
void print_json(const Json& head, const Placement& placement, RankSizes& sizes) {
  std::string text = json_line(head);
  text.back() = ',';
  cli::part(text + "\"groups\":{");
  const char* comma = "";
  for (const auto& name : group_names(placement.spec)) {
    text = fmt::format("{}\"{}\":[", comma, name);
    comma = "";
    for (const auto& ranks : named_groups(placement, name).groups) {
      text += comma;
      text += '[';
      append_list(text, ranks);
      text += ']';
      comma = ",";
    }
    cli::part(text + "]");
  }
  cli::part("},\"ranks\":[");
  std::map<const Json*, std::string> texts;
  for (std::size_t r = 0; r < placement.coordinates.size(); ++r) {
    const Json& mine = sizes.of(placement.coordinates[r]);
    std::string& rest = texts[&mine];
    if (rest.empty()) rest = json_line(mine).substr(1);
    cli::part(fmt::format("{}{{\"rank\":{},{}", r == 0 ? "" : ",", r, rest));
  }
  cli::part("]}\n");
}

}  // namespace

int dry_run(const TrainingOptions& given, int world, bool json) {
  const TrainingOptions o = complete_options(given, world, Purpose::rehearse);
  for (const auto& notice : o.notices) log::warn("{}", notice);
  const ModelSpec model = model_of(o);
  const Placement placement = place(o.parallel);
  const StepFlops flops = step_flops(model, o.parallel, o.batch);
  Json head{{"layout", json ? to_json(o.parallel) : Json(parallel_text(o.parallel))},
            {"world_size", o.parallel.world()},
            {"parameters", num_parameters(model)},
            {"vocab_size", model.vocab_size},
            {"padded_vocab_size", padded_vocab(model, o.parallel.tp)},
            {"micro_batches", o.batch.num_micro_batches(o.parallel)},
            {"flop_per_step", flops.causal},
            {"flop_per_step_non_causal", flops.non_causal},
            {"not_trainable_yet", not_trainable(o)},
            {"stages", stages_json(o, model)},
            {"data", look_at_data(o, model.vocab_size)},
            {"start", look_at_start(o, model)}};
  if (o.emulated_ms) head["emulated_step_ms"] = predicted_step(o, *o.emulated_ms);
  RankSizes sizes(o, model);
  json ? print_json(head, placement, sizes) : print_text(head, placement, sizes);
  return 0;
}

}  // namespace mt
