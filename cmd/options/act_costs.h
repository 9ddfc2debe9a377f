#pragma once
// How long the acts of a pipeline take, as a list of KEY=NUMBER: mt-topo schedule --cost, mt-train --emulate-compute.
//
// Code: cmd/options/act_costs.cc. Tests: tests/cli/mt_topo_schedule_test.cc, tests/cli/mt-train-emulated.sh.

#include <string>

#include "schedule/durations.h"

namespace mt::options {

// F, D, W, R, X, p2p and kept of `list` into `durations`; what is not named stays.
//   fails  Error{usage} with the flag, a key that is unknown, a number that is negative or beyond 1e12
void read_costs(Durations& durations, const std::string& list, const std::string& flag,
                const std::string& hint = "F=1,D=1,W=1,R=0,p2p=0,X=3,kept=0.5");

// Milliseconds of --emulate-compute: one number for F, D, W and R, or a list of them, of which F is asked for and the
// others are as F where they are not named.
//   fails  Error{usage} as above; F missing, 0, or more than an hour; keys that no act of a run has
Durations emulated_durations(const std::string& list);

}  // namespace mt::options
