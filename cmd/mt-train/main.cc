// mt-train: the hybrid-parallel trainer.

#include <cstdlib>
#include <memory>

#include <unistd.h>

#include "base/cli.h"
#include "base/error.h"
#include "base/features.h"
#include "base/log.h"
#include "comm/status_page.h"
#include "comm/world.h"
#include "launch.h"
#include "options/launcher_environment.h"
#include "options/megatron_flags.h"
#include "options/training_flags.h"
#include "train/dry_run.h"

namespace {

using mt::Launch;
using mt::TrainingOptions;

// Ranks of a dry run: those said, else the script's, else the environment's, else what the degrees make.
int world_of_dry_run(const Launch& launch, const TrainingOptions& options) {
  if (launch.world_size != 0) return launch.world_size;
  if (launch.script_ranks != 0) return launch.script_ranks;
  return options.data_parallel_size ? 0 : mt::options::world_of_environment(std::getenv);
}

std::function<int()> build(mt::OptionTable& table, const mt::cli::Shared& shared) {
  auto options = std::make_shared<TrainingOptions>();
  auto launch = std::make_shared<Launch>();
  mt::options::add_model(table, options->model);
  mt::options::add_parallel(table, *options);
  mt::options::add_batch(table, *options);
  mt::options::add_optimizer(table, *options);
  mt::options::add_data(table, options->data);
  mt::options::add_checkpoint(table, *options);
  mt::options::add_run(table, *options);
  table.group("Launch");
  table.add("local-ranks", launch->local_ranks, "N", "run N ranks as threads of this process, without MPI");
  table.add("dry-run", launch->dry_run, "", "validate and print layout, groups, parameters and bytes; no device");
  table.add("world-size", launch->world_size, "N", "ranks there are, or the dry run is for; default: those started, or the degrees' product");
  auto flags = std::make_shared<mt::options::MegatronFlags>();
  flags->add(table);
  return [=, &table, &shared]() -> int {
    if (flags->print_wanted) return flags->print(shared.json), 0;
    mt::options::note_given(table, *options);
    options->flag_problems = flags->refused();
    for (const auto& notice : flags->notices())
      if (mt::comm::launched_rank().rank == 0) mt::log::info("{}", notice);
    launch->script_ranks = flags->script_ranks().value_or(0);
    if (launch->dry_run) return mt::dry_run(*options, world_of_dry_run(*launch, *options), shared.json);
    return run_ranks(*options, *launch);
  };
}

}  // namespace

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-train";
  tool.summary = "Train a language model over many ranks: mpiexec -n N mt-train, or --local-ranks N.";
  tool.commands = {{"", "", build}};
  // Of ranks with the same wrong command line one speaks; the others leave it the time to.
  tool.speaks = mt::comm::launched_rank().rank == 0;
  tool.on_fatal = [speaks = tool.speaks](int status) {
    if (!speaks) ::usleep(500000);
    mt::comm::abort_job(status);
  };
  tool.backends = mt::kBackends;
  return mt::cli::run(tool, argc, argv);
}
