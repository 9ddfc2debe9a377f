#include <algorithm>

#include "schedule/list_schedule.h"

namespace mt {

namespace {

// A rank's forwards and input gradients of one micro-batch at fixed times, repeated every six: F, D, W of two chunks.
// Going down, an act stands `hop` after the one before it, going up likewise; a, b, c are the waits at the three turns.
// All must fall on different places of the six on every rank. Down they stand at hop·r and c2 + hop·r, up at c1 − hop·r
// and c3 − hop·r (mod 6): they never meet when c2 is even and not 0, c1 and c3 odd and different. Activations grow with
// hop (about hop/3 of pp); a hop above one act leaves time for messages.
std::vector<Lane> repeated(int pp, int m, int hop) {
  int a = 1, b = 1, c = 1;
  const int way = (pp - 1) * hop;
  if ((2 * way + a + b) % 6 == 0) b += 2;
  if ((4 * way + a + b + c) % 6 == (2 * way + a) % 6) c += 2;
  std::vector<Lane> lanes;
  for (int r = 0; r < pp; ++r) {
    const struct { Act act; int chunk, time; } acts[] = {
        {Act::forward, 0, hop * r},
        {Act::forward, 1, 2 * way + a - hop * r},
        {Act::backward_input, 1, 2 * way + a + b + hop * r},
        {Act::backward_input, 0, 4 * way + a + b + c - hop * r}};
    std::vector<std::pair<int, Step>> timed;
    for (const auto& x : acts)
      for (int i = 0; i < m; ++i)
        timed.push_back({x.time + 6 * i, {.act = x.act, .chunk = x.chunk, .micro_batch = i}});
    std::sort(timed.begin(), timed.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    Lane lane;
    for (const auto& [time, step] : timed) lane.push_back(step);
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

// Two chunks a rank, down the ranks and up again: loss and embedding are on rank 0, and all ranks wait alike.
Schedule generate(const ScheduleSpec& spec) {
  ListProblem p{{}, spec.num_micro_batches, spec.memory_cap > 0 ? spec.memory_cap : spec.pp, spec.durations, {}};
  for (int r = 0; r < spec.pp; ++r) p.stage_of.push_back({r, 2 * spec.pp - 1 - r});
  for (const int hop : {1, 2, 3, 4}) p.orders.push_back(repeated(spec.pp, spec.num_micro_batches, hop));
  return best_list_schedule("zb-v", p);
}

}  // namespace

ScheduleRow zb_v_schedule() {
  return {.name = "zb-v",
          .words = "split backward over two chunks in a V, searched within the activations of 1F1B's first rank",
          .generate = generate,
          .min_chunks = 2,
          .max_chunks = 2,
          .needs_split_backward = true,
          .v_shape = true};
}

}  // namespace mt
