// mt-topo: the machine, the process groups of a layout, pipeline schedules.

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "base/cli.h"
#include "base/error.h"
#include "base/features.h"
#include "layout/placement.h"
#include "layout/validate.h"
#include "mt-topo/commands.h"
#include "probe/machine.h"

namespace {

// More is a slip of the keys, and would take minutes and gigabytes to list.
constexpr int kMostRanks = 1000000;

struct GroupFlags {
  mt::ParallelSpec parallel;
  std::optional<int> world, ranks_per_host;
  std::string only;
};

// Hosts a group touches when ranks fill hosts in order; 1 when it stays inside one.
int hosts_of(const std::vector<int>& ranks, int per_host) {
  std::vector<int> hosts;
  for (int r : ranks) hosts.push_back(r / per_host);
  std::sort(hosts.begin(), hosts.end());
  return static_cast<int>(std::unique(hosts.begin(), hosts.end()) - hosts.begin());
}

void check_degrees(mt::ParallelSpec& p, std::optional<int> asked) {
  for (const int size : {p.tp, p.cp, p.pp, p.ep, p.etp, asked.value_or(1)})
    if (size < 1 || size > kMostRanks)
      throw mt::Error(mt::Code::usage, fmt::format("every size must be at least 1 and at most {}, found {}", kMostRanks, size));
  const auto product = std::int64_t{p.tp} * p.cp * p.pp, experts = std::int64_t{p.ep} * p.etp * p.pp;
  if (product > kMostRanks || experts > kMostRanks)
    throw mt::Error(mt::Code::usage, fmt::format("sizes that need {} ranks, more than {}", std::max(product, experts), kMostRanks));
  const int model = static_cast<int>(product), world = asked.value_or(model);
  if (world % model != 0)
    throw mt::Error(mt::Code::config, fmt::format("world size {} is not divisible by tp·cp·pp = {}", world, model), "",
                    fmt::format("--world-size {} or {}", std::max(1, world / model) * model, (world / model + 1) * model));
  if (world % experts != 0)
    throw mt::Error(mt::Code::config,
                    fmt::format("world size {} is not divisible by ep·etp·pp = {}", world, experts), "",
                    "expert sizes that divide it");
  p.dp = world / model;
  const int n = p.optimizer_instances;
  if (n < 1 || (p.dp * p.cp) % n != 0 || p.edp() % n != 0)
    throw mt::Error(mt::Code::config,
                    fmt::format("{} optimizer instances do not divide dp·cp {} and edp {}", n, p.dp * p.cp, p.edp()), "",
                    "--num-distributed-optimizer-instances " + mt::nearest_divisors(std::gcd(p.dp * p.cp, p.edp()), n));
  if (const auto problem = mt::order_problem(p))
    throw mt::Error(mt::Code::config, problem->what, "", "try " + problem->nearest);
}

int print_groups(GroupFlags f, bool json) {
  check_degrees(f.parallel, f.world);
  if (f.ranks_per_host && *f.ranks_per_host < 1)
    throw mt::Error(mt::Code::usage, fmt::format("{} is less than 1", *f.ranks_per_host), "--ranks-per-host");
  const auto names = mt::group_names(f.parallel);
  if (!f.only.empty() && std::find(names.begin(), names.end(), f.only) == names.end())
    throw mt::Error(mt::Code::usage, fmt::format("there is no group '{}'", f.only), "--group");
  const mt::Placement placement = mt::place(f.parallel);
  if (!json) mt::cli::part(f.ranks_per_host ? "group\tranks\thosts\n" : "group\tranks\n");
  for (const auto& name : names) {
    if (!f.only.empty() && name != f.only) continue;
    for (const auto& ranks : mt::named_groups(placement, name).groups) {
      const int hosts = f.ranks_per_host ? hosts_of(ranks, *f.ranks_per_host) : 0;
      if (json) {
        mt::Json j{{"group", name}, {"ranks", ranks}};
        if (hosts > 0) j["hosts"] = hosts;
        mt::cli::object(j);
        continue;
      }
      std::string line = name;
      for (int r : ranks) line += (r == ranks.front() ? '\t' : ','), line += fmt::format_int(r).c_str();
      if (hosts > 0) line += hosts == 1 ? "\tone host" : fmt::format("\t{} hosts", hosts);
      mt::cli::part(line + "\n");
    }
  }
  return 0;
}

std::function<int()> groups_command(mt::OptionTable& t, const mt::cli::Shared& shared) {
  auto f = std::make_shared<GroupFlags>();
  t.group("Layout");
  t.add("world-size", f->world, "N", "ranks; default tp x cp x pp");
  t.add("tensor-model-parallel-size", f->parallel.tp, "N", "ranks that share each layer");
  t.add("pipeline-model-parallel-size", f->parallel.pp, "N", "ranks that share the depth");
  t.add("context-parallel-size", f->parallel.cp, "N", "ranks that share a sequence");
  t.add("expert-model-parallel-size", f->parallel.ep, "N", "ranks that share the experts");
  t.add("expert-tensor-parallel-size", f->parallel.etp, "N", "ranks that share an expert; default as many as share a layer");
  t.add("num-distributed-optimizer-instances", f->parallel.optimizer_instances, "N",
        "copies of the sharded optimizer, each over a part of dp");
  t.add("rank-order", f->parallel.order, "ORDER", "which axis varies fastest over ranks, leftmost first");
  t.add("ranks-per-host", f->ranks_per_host, "N", "say which groups cross hosts");
  t.add("group", f->only, "NAME", "this group only");
  return [f, &t, &shared] {
    if (!t.given("expert-tensor-parallel-size")) f->parallel.etp = f->parallel.tp;
    return print_groups(*f, shared.json);
  };
}

std::function<int()> show_command(mt::OptionTable&, const mt::cli::Shared& shared) {
  return [&shared] {
    const mt::Json j = mt::machine_json();
    if (shared.json) {
      mt::cli::object(j);
      return 0;
    }
    for (const auto& [key, value] : j.items())
      mt::cli::row({key, value.is_string() ? value.get<std::string>() : value.dump()});
    return 0;
  };
}

}  // namespace

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-topo";
  tool.summary = "Show the machine, the process groups of a layout, and pipeline schedules.";
  tool.commands = {{"show", "the machine this runs on", show_command},
                   {"groups", "process groups of a layout", groups_command},
                   {"schedule", "a pipeline schedule, its picture and its bubble", mt::schedule_command}};
  tool.backends = mt::kBackends;
  return mt::cli::run(tool, argc, argv);
}
