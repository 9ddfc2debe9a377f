// mt-train: the hybrid-parallel trainer.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/cli.h"
#include "base/error.h"
#include "base/features.h"
#include "base/log.h"
#include "options/idle_flags.h"
#include "options/launch.h"
#include "options/launcher_environment.h"
#include "options/megatron_flags.h"
#include "options/training_flags.h"
#include "train/dry_run.h"
#include "train/trainer.h"

namespace {

using mt::TrainingOptions;
using mt::options::Launch;

// MT_TEST_THROW=RANK:STEP lets a drill break one rank in the middle of a step.
void throw_if_asked(int rank, std::int64_t step) {
  const char* text = std::getenv("MT_TEST_THROW");
  int r = 0;
  long long s = 0;
  if (text && std::sscanf(text, "%d:%lld", &r, &s) == 2 && r == rank && s == step)
    throw std::runtime_error("thrown by MT_TEST_THROW");
}

mt::TrainerHooks hooks_of(mt::comm::StatusSlot& slot, int rank) {
  mt::TrainerHooks hooks;
  hooks.on_phase = [&slot, rank](const char* phase, std::int64_t iteration) {
    slot.at(iteration, phase);
    if (std::string_view(phase) == "forward-backward") throw_if_asked(rank, iteration);
  };
  return hooks;
}

// What the command line says beyond the options of a run.
struct Given {
  TrainingOptions options;
  Launch launch;
  bool dry_run = false;
  int world_size = 0;    // ranks there should be; 0: not said
  int script_ranks = 0;  // ranks the script of --args-file starts; 0: not said
};

// Ranks that were asked for, against those there are.
void check_ranks(const Given& given, int there) {
  if (given.world_size != 0 && given.world_size != there)
    throw mt::Error(mt::Code::config,
                    fmt::format("--world-size {} with {} rank{}", given.world_size, there, there == 1 ? "" : "s"), "",
                    fmt::format("start {} ranks, or leave out --world-size", given.world_size));
  if (given.script_ranks != 0 && given.script_ranks != there && mt::comm::launched_rank().rank == 0)
    mt::log::warn("the script of --args-file starts {} ranks, here there {} {}", given.script_ranks,
                  there == 1 ? "is" : "are", there);
}

// Ranks of a dry run: those said, else those started, else the script's, else the environment's, else what the degrees make.
int world_of_dry_run(const Given& given) {
  const int launched = mt::comm::started_by_mpi() ? mt::comm::launched_rank().world : 1;
  if (const int started = given.launch.local_ranks != 0 ? given.launch.local_ranks : launched > 1 ? launched : 0) {
    check_ranks(given, started);
    return started;
  }
  if (given.world_size != 0) return given.world_size;
  if (given.script_ranks != 0) return given.script_ranks;
  return given.options.data_parallel_size ? 0 : mt::options::world_of_environment(std::getenv);
}

int run_ranks(const Given& given) {
  given.launch.check();
  // Who reads the log may go; the run goes on, saves, and says at its end that the log is not whole.
  std::signal(SIGPIPE, SIG_IGN);
  const auto complete = [&](int world) {
    check_ranks(given, world);
    return mt::complete_options(given.options, world);
  };
  std::optional<TrainingOptions> known;
  if (given.launch.size() > 0) known = complete(given.launch.size());
  return given.launch.run([&](mt::Communicator& world, mt::comm::StatusSlot& slot) {
    return mt::train(world, known ? *known : complete(world.size()), hooks_of(slot, world.rank()));
  });
}

std::function<int()> build(mt::OptionTable& table, const mt::cli::Shared& shared) {
  auto given = std::make_shared<Given>();
  TrainingOptions& options = given->options;
  mt::options::add_model(table, options.model);
  mt::options::add_experts(table, options.model);
  mt::options::add_parallel(table, options);
  mt::options::add_batch(table, options);
  mt::options::add_optimizer(table, options);
  mt::options::add_update_rules(table, options);
  mt::options::add_loop(table, options);
  mt::options::add_precision(table, options);
  mt::options::add_recompute(table, options);
  mt::options::add_data(table, options.data);
  mt::options::add_checkpoint(table, options);
  mt::options::add_run(table, options);
  mt::options::add_telemetry(table, options);
  given->launch.add_timeout(table);
  table.group("Launch");
  given->launch.add_local_ranks(table);
  table.add("dry-run", given->dry_run, "", "validate and print layout, groups, parameters and bytes; no device");
  table.add("world-size", given->world_size, "N",
            "ranks there are, or the dry run is for; default: those started, or the degrees' product")
      .at_least(1)
      .no_default();
  auto flags = std::make_shared<mt::options::MegatronFlags>();
  flags->add(table);
  return [=, &table, &shared]() -> int {
    if (flags->print_wanted) return flags->print(shared.json), 0;
    TrainingOptions& o = given->options;
    mt::options::note_given(table, o);
    o.flag_problems = flags->refused();
    for (const auto& notice : flags->notices())
      if (mt::comm::launched_rank().rank == 0) mt::log::info("{}", notice);
    mt::options::note_idle_flags(table, mt::options::idle_training_flags(o));
    o.json_lines = shared.json;
    given->script_ranks = flags->script_ranks().value_or(0);
    if (given->dry_run) {
      const int world = world_of_dry_run(*given);
      return mt::comm::launched_rank().rank == 0 ? mt::dry_run(o, world, shared.json) : 0;  // one of the ranks speaks
    }
    return run_ranks(*given);
  };
}

}  // namespace

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-train";
  tool.summary = "Train a language model over many ranks: mpiexec -n N mt-train, or --local-ranks N.";
  tool.commands = {{"", "", build}};
  mt::options::speak_as_one(tool);
  tool.backends = mt::kBackends;
  return mt::cli::run(tool, argc, argv);
}
