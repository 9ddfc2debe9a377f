#pragma once
// Flags that were given and do nothing in this combination: a line each, so that nothing is ignored in silence.
//
// Code: cmd/options/idle_flags.cc. Tests: tests/cli/mt-train.sh, mt-eval.sh.

#include <string>
#include <vector>

#include "base/options.h"
#include "train/training_options.h"

namespace mt::options {

// Flags that do nothing while `idle` holds, and why.
struct IdleFlags {
  bool idle = false;
  std::vector<std::string> flags;
  std::string reason;  // "without --save", "beside --greedy"
  bool off_too = false;  // a switch that was said to be off is one of them
};

// Warn once for each flag of a row that is idle and was given; on the first rank of a job alone.
void note_idle_flags(const OptionTable& table, const std::vector<IdleFlags>& rows);

std::vector<IdleFlags> idle_training_flags(const TrainingOptions& options);

}  // namespace mt::options
