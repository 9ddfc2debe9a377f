#include <algorithm>

#include "schedule/schedule.h"

namespace mt {

namespace {

// Chunk and micro-batch of every forward in order: groups of micro-batches walk through the chunks one by one.
std::vector<Step> forward_order(int m, int chunks, int group) {
  std::vector<Step> order;
  for (int first = 0; first < m; first += group)
    for (int c = 0; c < chunks; ++c)
      for (int i = first; i < std::min(first + group, m); ++i) order.push_back({.chunk = c, .micro_batch = i});
  return order;
}

Schedule interleave(int pp, int m, int chunks, int group) {
  Schedule s{.name = "interleaved", .num_micro_batches = m};
  const auto order = forward_order(m, chunks, group);
  const int total = m * chunks;
  for (int r = 0; r < pp; ++r) {
    // Megatron's count. A group below pp − 1 cannot feed so deep a warm-up: the first rank may be two groups ahead of
    // the last, since a forward waits for the one a group before it at the last rank, a backward likewise at the first.
    const int warm_up = std::min(std::min(2 * (pp - r - 1), 2 * group) + (chunks - 1) * group, total);
    Lane lane;
    for (int k = 0; k < total + warm_up; ++k) {
      if (k < total) lane.push_back(order[static_cast<std::size_t>(k)]);
      if (k < warm_up) continue;
      Step step = order[static_cast<std::size_t>(k - warm_up)];
      step.act = Act::backward;
      step.chunk = chunks - 1 - step.chunk;
      lane.push_back(step);
    }
    s.lanes.push_back(std::move(lane));
    std::vector<int> stages;
    for (int c = 0; c < chunks; ++c) stages.push_back(c * pp + r);
    s.stage_of.push_back(std::move(stages));
    s.max_in_flight.push_back(std::min(warm_up + 1, total));
  }
  return s;
}

Schedule generate(const ScheduleSpec& spec) {
  const int chunks = spec.chunks > 0 ? spec.chunks : 2, m = spec.num_micro_batches;
  const int group = std::min(spec.group_size > 0 ? spec.group_size : spec.pp, m);
  // A last group smaller than the pipeline would be waited for; a full one whose surplus is then dropped is not.
  const int rest = m % group;
  if (chunks == 1 || rest == 0 || (rest >= spec.pp && group >= spec.pp)) return interleave(spec.pp, m, chunks, group);
  return first_micro_batches(interleave(spec.pp, m - rest + group, chunks, group), m);
}

}  // namespace

ScheduleRow interleaved_schedule() {
  return {.name = "interleaved",
          .words = "1F1B over several chunks a rank; the bubble shrinks by their number",
          .generate = generate,
          .max_chunks = 0};
}

}  // namespace mt
