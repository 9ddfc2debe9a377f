#pragma once
// Bytes of optimizer state on a rank, by what the update rule keeps of each parameter, before the run.
//
// Code: plan/optimizer_memory.cc. Tests: tests/plan/optimizer_memory_test.cc.

#include <cstdint>
#include <vector>

#include "layout/state_spec.h"

namespace mt {

// Moments, master weights, and for Muon the matrices it gathers (layout/muon_matrices.h). Exact without ZeRO and for
// Muon; else a rank's padded share, which is the same for all ranks of a group.
// What lies in host memory beside an accelerator (layout/host_state.h) is not among it.
//   needs  the table of the rank at `coordinate`
std::int64_t optimizer_bytes(const std::vector<ParamSpec>& specs, const ParallelSpec& parallel,
                             const Coordinate& coordinate, const StateSpec& state);
// The rest: state in host memory, and pieces under way. Exact.
std::int64_t host_optimizer_bytes(const std::vector<ParamSpec>& specs, const ParallelSpec& parallel,
                                  const Coordinate& coordinate, const StateSpec& state);

}  // namespace mt
