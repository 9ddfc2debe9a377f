#pragma once
// Rank ↔ coordinate, and the process groups of a layout, as explicit lists of ranks.
//
// Two grids over the same ranks: dense (tp, cp, dp, pp) and expert (etp, ep, edp, pp); with the default order
//   rank = tp + TP·(cp + CP·(dp + DP·pp)) = etp + ETP·(ep + EP·(edp + EDP·pp))
// The order string is one generator of the table; a table can also be given row by row (elastic runs).
// Code: layout/placement.cc. Tests: tests/layout/placement_test.cc (Megatron's worked example).

#include <string>
#include <vector>

#include "layout/parallel_spec.h"

namespace mt {

// Axes of both grids. `kv` is the part of tp whose ranks hold the same key/value heads (when there are fewer than tp).
enum class Axis : std::uint8_t { tp, cp, dp, pp, etp, ep, edp, kv };
const char* axis_name(Axis axis);

struct Coordinate {
  int tp = 0, cp = 0, dp = 0, pp = 0;
  int etp = 0, ep = 0, edp = 0;
  bool operator==(const Coordinate&) const = default;
  int operator[](Axis axis) const;
};

struct Placement {
  ParallelSpec spec;
  std::vector<Coordinate> coordinates;  // by world rank

  int rank_of(const Coordinate& dense) const;  // by tp, cp, dp, pp
};

// From the spec's order string.
//   needs  world() ranks; etp·ep·pp divides it (validate() said so)
Placement place(const ParallelSpec& spec);

// Ranks that share every coordinate but the given axes, one group an entry, groups in order of their lowest rank,
// ranks inside in the order the axes vary. All axes from one grid (kv is not a grid axis; see kv_group).
std::vector<std::vector<int>> groups(const Placement& placement, const std::vector<Axis>& axes);
// The one group that contains `rank`.
std::vector<int> group_of(const Placement& placement, const std::vector<Axis>& axes, int rank);

// The tp ranks that hold the same key/value heads as `rank`: max(1, tp/kv_heads) consecutive ones of its tp group.
std::vector<int> kv_group(const Placement& placement, int kv_heads, int rank);

// A data-parallel group cut for several optimizer instances, as Megatron does: consecutive ranks make an instance
// (intra), those of equal place in theirs hold the same shards (inter).   needs  instances divides every group's size
std::vector<std::vector<int>> intra_partial(const std::vector<std::vector<int>>& groups, int instances);
std::vector<std::vector<int>> inter_partial(const std::vector<std::vector<int>>& groups, int instances);

// Named groups of a layout as `mt-topo groups` prints them, Megatron's names: tp, cp, dp, dp-cp, pp, tp-pp, tp-cp,
// tp-dp-cp, ep, etp, edp, etp-ep, embedding, position_embedding; of several optimizer instances also
// intra-partial-dp-cp, inter-partial-dp-cp and the same of edp.   cost  linear in the ranks
struct NamedGroups {
  std::string name;
  std::vector<std::vector<int>> groups;
};
std::vector<std::string> group_names(const ParallelSpec& parallel);
NamedGroups named_groups(const Placement& placement, const std::string& name);

}  // namespace mt
