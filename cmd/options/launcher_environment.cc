#include "options/launcher_environment.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace mt::options {

namespace {

// The first of the names that is set.   fails  Error{config}: it is no whole number, or below `least`
struct Number {
  const char* name;
  int value;
};
std::optional<Number> number(const Environment& env, std::initializer_list<const char*> names, int least = 0) {
  for (const char* name : names) {
    const char* set = env(name);
    const std::string_view text = set != nullptr ? set : "";
    if (text.empty()) continue;
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least)
      throw Error(Code::config, fmt::format("{} is '{}' in the environment, wanted a whole number of {} or more", name, text, least),
                  "", fmt::format("unset {}, or let a launcher set it", name));
    return Number{name, value};
  }
  return std::nullopt;
}

constexpr const char* kStart = "mpiexec -n {0} mt-train, srun --mpi=pmi2 mt-train, or --local-ranks {0}";

}  // namespace

void check_launcher_environment(int local_ranks, const Environment& env) {
  const auto mpi_rank = number(env, {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
  const auto mpi_size = number(env, {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}, 1);
  const auto rank = number(env, {"RANK"}), world = number(env, {"WORLD_SIZE"}, 1);
  if (rank && world && rank->value >= world->value)
    throw Error(Code::config, fmt::format("RANK is {} in the environment, WORLD_SIZE is {}: ranks count from 0", rank->value,
                                          world->value), "", "unset both, or let a launcher set them");
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
  const auto tasks = number(env, {"SLURM_STEP_NUM_TASKS"}, 1);
  const auto there = world && world->value > 1 ? world : tasks && tasks->value > 1 ? tasks : std::nullopt;
  const char* step = env("SLURM_STEP_ID");
  if (!there && (step == nullptr || *step == '\0')) {  // a batch script or a shell, which is no task of the job
    if (const auto wanted = number(env, {"SLURM_NTASKS"}, 1); wanted && wanted->value > 1)
      throw Error(Code::comm, fmt::format("Slurm has room for {} tasks by {}, and this process is none of them: it would "
                                          "run alone", wanted->value, wanted->name),
                  "", fmt::format(fmt::runtime(kStart), wanted->value) + ", or --local-ranks 1");
  }
  if (!there) return;
  const auto mine = number(env, {"RANK", "SLURM_PROCID"});
  throw Error(Code::comm, fmt::format("this is rank {} of {} by {}, and no MPI connects them", mine ? mine->value : 0,
                                      there->value, there->name),
              "", fmt::format(fmt::runtime(kStart), there->value));
}

int world_of_environment(const Environment& env) {
  const auto world = number(env, {"WORLD_SIZE"}, 1);
  return world ? world->value : 0;
}

}  // namespace mt::options
