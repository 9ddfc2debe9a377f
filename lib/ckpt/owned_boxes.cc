#include "ckpt/owned_boxes.h"

#include "base/hash.h"

namespace mt {

namespace {

// What one rank of the replicas writes of a piece that is nowhere sharded.
std::vector<PlacedBox> replica_part(const ParamSpec& spec, const Piece& piece, const Replica& replica, DType dtype) {
  const Box part = written_part(piece, replica, dtype);
  if (part.empty()) return {};
  // Where its first element lies in the parameter.
  std::int64_t in_box = -1, at = -1;
  for_each_run(piece.box, part, [&](std::int64_t outer, std::int64_t, std::int64_t) {
    if (in_box < 0) in_box = outer;
  });
  for_each_run(whole(spec.shape), piece.local, [&](std::int64_t place, std::int64_t inner, std::int64_t n) {
    if (inner <= in_box && in_box < inner + n) at = place + in_box - inner;
  });
  return {{part, at}};
}

// What this rank's optimizer instance writes of a shard that each of them holds: an equal part, or, where it is small and
// not worth cutting, all or nothing.
std::pair<std::int64_t, std::int64_t> instance_part(const Piece& piece, const ShardSpec& spec, bool expert,
                                                    const OwnedRange& shard, DType dtype) {
  const int instance = expert ? spec.expert_instance : spec.instance;
  if (bytes_of(dtype, shard.size()) < kWorthCutting) {
    const auto writer = static_cast<int>(xxh3(piece.name) % static_cast<std::uint64_t>(spec.instances));
    return {shard.begin, writer == instance ? shard.end : shard.begin};
  }
  return {shard.begin + shard.size() * instance / spec.instances,
          shard.begin + shard.size() * (instance + 1) / spec.instances};
}

}  // namespace

std::vector<OwnedBox> owned_boxes(const std::vector<ParamSpec>& specs, const ShardPlan& plan, const ParallelSpec& parallel,
                                  const Coordinate& at, const StoredKinds& kinds) {
  std::vector<OwnedBox> out;
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    const OwnedRange& shard = plan.shards[i];
    const auto& spec = specs[static_cast<std::size_t>(shard.param)];
    if (spec.tie_copy) continue;
    for (const auto& piece : spec.pieces)
      for (const auto& [kind, dtype] : kinds(spec, piece)) {
        std::vector<PlacedBox> parts;
        if (!plan.spec.sharded())
          parts = replica_part(spec, piece, replica_of(spec, piece, parallel, at), dtype);
        else if (first_replica(piece, at)) {
          const auto [begin, end] = instance_part(piece, plan.spec, spec.expert, shard, dtype);
          parts = boxes_in_range(spec, piece, begin, end);
        }
        for (auto& p : parts)
          out.push_back({{piece.name, kind, dtype, piece.shape, std::move(p.box)}, i, p.at - shard.begin});
      }
  }
  return out;
}

}  // namespace mt
