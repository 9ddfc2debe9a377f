#include "layout/shards.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

namespace {

constexpr std::int64_t kAlign = 64;  // elements: a cache line in every dtype

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

ShardSpec shard_spec(const ParallelSpec& parallel, const Coordinate& at) {
  const int ranks = parallel.shard_ranks(), rank = at.cp + parallel.cp * at.dp;
  const int expert_ranks = std::max(1, parallel.edp() / parallel.optimizer_instances);
  return {parallel.zero_stage, ranks, rank % ranks, parallel.optimizer_instances, rank / ranks, expert_ranks,
          at.edp % expert_ranks, at.edp / expert_ranks};
}

std::int64_t ShardPlan::own() const {
  std::int64_t n = 0;
  for (const auto& b : buckets) n += b.own_size();
  return n;
}

std::pair<std::size_t, std::size_t> ShardPlan::buckets_of_unit(int unit) const {
  std::size_t first = 0;
  while (first < buckets.size() && buckets[first].unit != unit) ++first;
  std::size_t last = first;
  while (last < buckets.size() && buckets[last].unit == unit) ++last;
  return {first, last};
}

ShardPlan plan_shards(const std::vector<ParamSpec>& specs, const ShardSpec& spec) {
  ShardPlan plan;
  plan.spec = spec;
  const auto together = [&](std::size_t a, std::size_t b) {
    return specs[a].unit == specs[b].unit && specs[a].expert == specs[b].expert && specs[a].grad_slots < 2 &&
           specs[b].grad_slots < 2;
  };
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const int param = static_cast<int>(i), unit = specs[i].unit;
    if (i == 0 || !together(i - 1, i)) {
      MT_CHECK(i == 0 || unit >= specs[i - 1].unit, "parameters are not in order of units at {}", specs[i].name);
      plan.buckets.push_back({unit, plan.total, plan.total, param, param});
      auto& b = plan.buckets.back();
      if (spec.sharded() && specs[i].expert) b.parts = spec.expert_ranks, b.part = spec.expert_rank;
      if (spec.sharded() && !specs[i].expert) b.parts = spec.ranks, b.part = spec.rank;
    }
    auto& bucket = plan.buckets.back();
    plan.bucket.push_back(plan.buckets.size() - 1);
    plan.offset.push_back(bucket.end);
    bucket.end += up(specs[i].elements(), kAlign);
    bucket.last_param = param + 1;
    plan.total = bucket.end;
    if (i + 1 == specs.size() || !together(i, i + 1))
      plan.total = bucket.end = bucket.begin + up(bucket.size(), kAlign * bucket.parts);
  }
  for (const auto& b : plan.buckets)
    for (int p = b.first_param; p < b.last_param; ++p) {
      const auto i = static_cast<std::size_t>(p);
      const std::int64_t at = plan.offset[i], lo = std::max(at, b.own_begin());
      const std::int64_t hi = std::min(at + specs[i].elements(), b.own_begin() + b.own_size());
      if (lo >= hi) continue;
      plan.shards.push_back({p, lo - at, hi - at, plan.state});
      plan.state += spec.sharded() ? hi - lo : up(hi - lo, kAlign);
    }
  return plan;
}

std::vector<PlacedBox> boxes_in_range(const ParamSpec& spec, const Piece& piece, std::int64_t begin,
                                      std::int64_t end) {
  std::vector<PlacedBox> out;
  if (piece.box.empty()) return out;
  for_each_run(whole(spec.shape), piece.local, [&](std::int64_t place, std::int64_t inner, std::int64_t n) {
    std::int64_t at = std::max(begin, place);
    const std::int64_t last = std::min(end, place + n);
    if (at >= last) return;
    for (Box box : boxes_of_range(piece.box.extent, inner + at - place, inner + last - place)) {
      const std::int64_t size = box.size();
      for (std::size_t d = 0; d < box.offset.size(); ++d) box.offset[d] += piece.box.offset[d];
      out.push_back({std::move(box), at});
      at += size;
    }
  });
  return out;
}

}  // namespace mt
