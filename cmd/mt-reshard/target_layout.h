#pragma once
// The layout that mt-reshard cuts files for: what the command line says of it, the rest as stored.
//
// Code: mt-reshard/target_layout.cc. Tests: tests/cli/mt_reshard_test.cc.

#include <optional>
#include <string>

#include "base/options.h"
#include "layout/model_spec.h"
#include "layout/parallel_spec.h"

namespace mt {

inline constexpr int kMostRanks = 65536;  // more is a slip of the keys; each is a file

struct TargetLayout {
  std::optional<int> tp, pp, vpp, dp, ep, etp;
  std::string stages;     // Megatron's layout string; empty: even
  bool v_shape = false;
  std::string sharding;   // a data-parallel sharding strategy; empty: as stored

  bool given() const { return tp || pp || vpp || dp || ep || etp || v_shape || !stages.empty() || !sharding.empty(); }
};

// Rows --target-…; `target` must outlive the table.
void add_target_layout(OptionTable& table, TargetLayout& target);

// `stored` with what was given. A new depth is cut evenly into one chunk a rank unless chunks or stages are given; what
// is a fact of a run and not of its files, sequence parallelism and optimizer instances, gives way where it does not fit.
//   fails  Error{config} with everything that clashes; Error{usage} more than kMostRanks ranks
ParallelSpec parallel_of(const TargetLayout& target, ParallelSpec stored, const ModelSpec& model);

}  // namespace mt
