#include "comm/groups.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

int kv_heads_of(const ModelSpec& model) {
  for (const auto& row : model.decoder().rows)
    if (row.kind == RowKind::attention) return row.attention.kv_heads;
  return 1;
}

const Communicator& Groups::of(Axis axis) const {
  switch (axis) {
    case Axis::tp: return *tp;
    case Axis::dp: return *dp;
    case Axis::pp: return *pp;
    case Axis::kv: return *kv;
    default: break;
  }
  MT_CHECK(false, "no group for axis {}", axis_name(axis));
  return *world;
}

Groups make_groups(Communicator& world, const Placement& placement, int kv_heads) {
  MT_CHECK(world.size() == placement.spec.world(), "world {} layout {}", world.size(), placement.spec.world());
  Groups g;
  g.placement = placement;
  g.world = &world;
  const int rank = world.rank();
  g.coordinate = placement.coordinates[static_cast<std::size_t>(rank)];
  const auto make = [&](const char* name, const std::vector<Axis>& axes) {
    return world.make_group(group_of(placement, axes, rank), name);
  };
  g.tp = make("tp", {Axis::tp});
  g.dp = make("dp", {Axis::dp});
  g.dp_cp = make("dp-cp", {Axis::dp, Axis::cp});
  if (const int n = placement.spec.optimizer_instances; n > 1) {
    const auto mine = [rank](const std::vector<std::vector<int>>& groups) {
      for (const auto& ranks : groups)
        if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return ranks;
      return std::vector<int>{};
    };
    const std::vector<std::vector<int>> whole{group_of(placement, {Axis::dp, Axis::cp}, rank)};
    g.intra = world.make_group(mine(intra_partial(whole, n)), "intra-partial-dp-cp");
    g.inter = world.make_group(mine(inter_partial(whole, n)), "inter-partial-dp-cp");
  }
  g.pp = make(std::string(kPipeline).c_str(), {Axis::pp});
  g.kv = world.make_group(kv_group(placement, kv_heads, rank), "kv");
  for (std::size_t i = 0; i < g.channels.size(); ++i)
    g.channels[i] = make(fmt::format("{}{}", kChannelPrefix, i).c_str(), {Axis::pp});
  g.model = make("tp-pp", {Axis::tp, Axis::pp});
  return g;
}

}  // namespace mt
