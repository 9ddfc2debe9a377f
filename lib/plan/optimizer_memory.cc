#include "plan/optimizer_memory.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "layout/muon_matrices.h"

namespace mt {

namespace {

constexpr std::int64_t kAlign = 64;  // elements, as params/zero.h starts parameters

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// Elements [begin, end) of a parameter, flat, that the rank owns.
struct Own {
  std::int64_t begin = 0, end = 0;
};

// Among the ranks that share one set of shards.
int rank_of_shard(const ParallelSpec& parallel, const Coordinate& at, bool expert = false) {
  return expert ? at.edp % (parallel.edp() / parallel.optimizer_instances)
                : (at.cp + parallel.cp * at.dp) % parallel.shard_ranks();
}

// A rank's part of every bucket, and of every parameter, as params/zero.h cuts them.
struct Shares {
  std::vector<Own> params;
  std::int64_t padded = 0;

  Shares(const std::vector<ParamSpec>& specs, const ParallelSpec& parallel, const Coordinate& at) {
    // Buckets: a tied table has its own; experts are shared over other ranks.
    std::map<std::tuple<int, bool, bool>, std::int64_t> size, seen;
    const auto bucket_of = [](const ParamSpec& s) { return std::tuple{s.unit, s.grad_slots == 2, s.expert}; };
    for (const auto& s : specs) size[bucket_of(s)] += up(s.elements(), kAlign);
    const bool sharded = parallel.zero_stage > 0;
    for (auto& [key, n] : size) {
      const std::int64_t ranks =
          !sharded ? 1 : std::get<2>(key) ? parallel.edp() / parallel.optimizer_instances : parallel.shard_ranks();
      n = up(n, kAlign * ranks) / ranks;
      padded += n;
    }
    for (const auto& s : specs) {
      const std::int64_t part = size[bucket_of(s)], rank = rank_of_shard(parallel, at, s.expert);
      std::int64_t& begin = seen[bucket_of(s)];
      const std::int64_t lo = sharded ? part * rank : 0;
      const Own own{std::max<std::int64_t>(0, lo - begin), std::min(s.elements(), lo + part - begin)};
      params.push_back(own.begin < own.end ? own : Own{});
      begin += up(s.elements(), kAlign);
    }
  }
};

std::int64_t bits_of_state(const StateSpec& state, const ParamSpec& spec) {
  std::int64_t bits = state.own_master() ? bits_of(DType::f32) : 0;
  for (const auto& k : state_kinds(state, spec)) bits += bits_of(k.dtype);
  return bits;
}

std::int64_t muon_bytes(const std::vector<ParamSpec>& specs, const Shares& shares, const ParallelSpec& parallel,
                        const Coordinate& at, const StateSpec& state) {
  const bool sharded = parallel.zero_stage > 0;
  MuonSharing sharing{state.muon_whole, state.muon_split_qkv, parallel.tp, sharded ? parallel.shard_ranks() : 1};
  const auto matrices = muon_matrices(specs, sharing);
  std::int64_t mine = 0, bytes = 0;
  for (const auto& m : matrices) {
    const Own& own = shares.params[static_cast<std::size_t>(m.param)];
    mine += std::max<std::int64_t>(0, std::min(own.end, m.end) - std::max(own.begin, m.begin));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::int64_t n = shares.params[i].end - shares.params[i].begin;
    bytes += (sharded ? n : up(n, kAlign)) * bits_of_state(state, specs[i]) / 8;
  }
  const int d = sharded ? rank_of_shard(parallel, at) : 0;
  const int rank = sharing.whole ? at.tp + parallel.tp * d : d;
  return bytes + bytes_of(DType::f32, muon_buffer_elements(matrices, sharing, rank, mine));
}

}  // namespace

std::int64_t optimizer_bytes(const std::vector<ParamSpec>& specs, const ParallelSpec& parallel,
                             const Coordinate& coordinate, const StateSpec& state) {
  if (specs.empty()) return 0;
  const Shares shares(specs, parallel, coordinate);
  if (state.rule == UpdateRule::muon) return muon_bytes(specs, shares, parallel, coordinate, state);
  return shares.padded * bits_of_state(state, specs.front()) / 8;
}

}  // namespace mt
