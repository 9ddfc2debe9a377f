#pragma once
// What launchers leave in the environment, and where it contradicts how this process was started.
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK
//   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_ID, SLURM_NTASKS
//   MPI        PMI_RANK, PMI_SIZE, OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, PMIX_RANK
// Only MPI connects ranks; the others' variables are read to notice ranks that nothing connects, each of which would
// train the whole run alone. Code: launcher_environment.cc. Tests: tests/cli/mt-train-flags.sh.

#include <functional>
#include <string>

namespace mt::options {

// getenv, or a test's.
using Environment = std::function<const char*(const char*)>;

// Before ranks start.   needs  local_ranks as --local-ranks says, 0 when not given
//   fails  Error{config}: a variable is no whole number; RANK or WORLD_SIZE differ from MPI's, or from each other; Error{comm}: torchrun or
//          Slurm started several processes and no MPI connects them, or Slurm has room for several tasks and this is the
//          batch script or a shell; with the numbers and how to start
void check_launcher_environment(int local_ranks, const Environment& env);

// WORLD_SIZE, for a dry run that was told nothing else; 0 when there is none.   fails  Error{config}: no whole number
int world_of_environment(const Environment& env);

}  // namespace mt::options
