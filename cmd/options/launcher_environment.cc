#include "options/launcher_environment.h"

#include <cstdlib>
#include <optional>

#include "base/error.h"

namespace mt::options {

namespace {

// The first of the names that is set.
struct Number {
  const char* name;
  int value;
};
std::optional<Number> number(const Environment& env, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* text = env(name); text != nullptr && *text != '\0') return Number{name, std::atoi(text)};
  return std::nullopt;
}

}  // namespace

void check_launcher_environment(int local_ranks, const Environment& env) {
  const auto mpi_rank = number(env, {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
  const auto mpi_size = number(env, {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"});
  const auto rank = number(env, {"RANK"}), world = number(env, {"WORLD_SIZE"});
  if (mpi_rank) {
    for (const auto& [theirs, ours] : {std::pair{world, mpi_size}, {rank, mpi_rank}})
      if (theirs && ours && theirs->value != ours->value)
        throw Error(Code::config,
                    fmt::format("{} is {} in the environment, MPI's {} is {}", theirs->name, theirs->value, ours->name,
                                ours->value),
                    "", fmt::format("unset {}, or let one launcher start the ranks", theirs->name));
    return;
  }
  if (local_ranks != 0) return;
  const auto tasks = number(env, {"SLURM_STEP_NUM_TASKS"});
  const auto there = world && world->value > 1 ? world : tasks && tasks->value > 1 ? tasks : std::nullopt;
  if (!there) return;
  const auto mine = number(env, {"RANK", "SLURM_PROCID"});
  throw Error(Code::comm, fmt::format("this is rank {} of {} by {}, and no MPI connects them", mine ? mine->value : 0,
                                      there->value, there->name),
              "", fmt::format("mpiexec -n {} mt-train, srun --mpi=pmi2 mt-train, or --local-ranks {}", there->value,
                              there->value));
}

int world_of_environment(const Environment& env) {
  const auto world = number(env, {"WORLD_SIZE"});
  return world && world->value > 0 ? world->value : 0;
}

}  // namespace mt::options
