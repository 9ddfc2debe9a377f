#pragma once
// Start of the ranks: under MPI with a watcher each, as threads, or alone; and how their failures reach the person.
//
// Code: cmd/mt-train/launch.cc. Tests: tests/drills/mt-train.sh.

#include "train/training_options.h"

namespace mt {

struct Launch {
  int local_ranks = 0;  // > 0: threads of this process
  bool dry_run = false;
  int world_size = 0;    // ranks there should be; 0: not said
  int script_ranks = 0;  // ranks the script of --args-file starts; 0: not said
};

// Train on all ranks.
//   gives  exit status of the job. Under MPI a status other than 0 does not return: the whole job ends with it
//   fails  Error of the first rank that failed, with rank, step and phase
int run_ranks(const TrainingOptions& given, const Launch& launch);

}  // namespace mt
