// mt-train: the hybrid-parallel trainer.

#include <memory>

#include <unistd.h>

#include "base/cli.h"
#include "base/error.h"
#include "base/features.h"
#include "comm/status_page.h"
#include "comm/world.h"
#include "launch.h"
#include "options/training_flags.h"
#include "train/dry_run.h"

namespace {

using mt::Launch;
using mt::TrainingOptions;

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
  table.add("world-size", launch->world_size, "N", "ranks the dry run is for; default: the degrees' product");
  return [=, &table, &shared]() -> int {
    mt::options::note_given(table, *options);
    if (launch->dry_run) return mt::dry_run(*options, launch->world_size, shared.json);
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
