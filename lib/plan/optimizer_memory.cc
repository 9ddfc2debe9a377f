#include "plan/optimizer_memory.h"

#include <algorithm>

#include "layout/host_state.h"
#include "layout/muon_matrices.h"
#include "layout/shards.h"

namespace mt {

namespace {

constexpr std::int64_t kAlign = 64;  // elements, as layout/shards.h starts parameters

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

std::int64_t bits_of_state(const StateSpec& state, const ParamSpec& spec) {
  std::int64_t bits = state.own_master() ? bits_of(DType::f32) : 0;
  for (const auto& k : state_kinds(state, spec)) bits += bits_of(k.dtype);
  return bits;
}

// Of one moment, with what its shards are padded by.
std::int64_t elements_on_host(const ShardPlan& plan, const StateSpec& state) {
  const auto on_host = shards_on_host(plan, state);
  std::int64_t n = 0;
  for (std::size_t i = 0; i < on_host.size(); ++i)
    if (on_host[i]) n += (i + 1 < on_host.size() ? plan.shards[i + 1].state : plan.state) - plan.shards[i].state;
  return n;
}

std::int64_t muon_bytes(const std::vector<ParamSpec>& specs, const ShardPlan& shards, const ParallelSpec& parallel,
                        const Coordinate& at, const StateSpec& state) {
  const ShardSpec& d = shards.spec;
  MuonSharing sharing{state.muon_whole, state.muon_split_qkv, parallel.tp, d.sharded() ? d.ranks : 1};
  const auto matrices = muon_matrices(specs, sharing);
  std::int64_t mine = 0, bytes = 0;
  std::vector<OwnedRange> own(specs.size());
  for (const OwnedRange& s : shards.shards) {
    own[static_cast<std::size_t>(s.param)] = s;
    const auto& spec = specs[static_cast<std::size_t>(s.param)];
    bytes += (d.sharded() ? s.size() : up(s.size(), kAlign)) * bits_of_state(state, spec) / 8;
  }
  for (const auto& m : matrices) {
    const OwnedRange& o = own[static_cast<std::size_t>(m.param)];
    mine += std::max<std::int64_t>(0, std::min(o.end, m.end) - std::max(o.begin, m.begin));
  }
  const int shard = d.sharded() ? d.rank : 0;
  const int rank = sharing.whole ? at.tp + parallel.tp * shard : shard;
  return bytes + bytes_of(DType::f32, muon_buffer_elements(matrices, sharing, rank, mine));
}

}  // namespace

std::int64_t optimizer_bytes(const std::vector<ParamSpec>& specs, const ParallelSpec& parallel,
                             const Coordinate& coordinate, const StateSpec& state) {
  if (specs.empty()) return 0;
  const ShardPlan shards = plan_shards(specs, shard_spec(parallel, coordinate));
  if (state.rule == UpdateRule::muon) return muon_bytes(specs, shards, parallel, coordinate, state);
  const std::int64_t bits = bits_of_state(state, specs.front());
  if (state.on_host > 0) return (shards.state - elements_on_host(shards, state)) * bits / 8;
  return shards.own() * bits / 8;
}

std::int64_t host_optimizer_bytes(const std::vector<ParamSpec>& specs, const ParallelSpec& parallel,
                                  const Coordinate& coordinate, const StateSpec& state) {
  if (specs.empty() || state.on_host == 0) return 0;
  const ShardPlan shards = plan_shards(specs, shard_spec(parallel, coordinate));
  return elements_on_host(shards, state) * bits_of_state(state, specs.front()) / 8 +
         kHostSlots * host_slot(shards, state).bytes();
}

}  // namespace mt
