#include <algorithm>

#include "schedule/dualpipe_lane.h"

namespace mt {

namespace {

// DualPipe folded in the middle: each rank holds what two ranks of twice the depth held, so one copy is enough and
// every micro-batch passes through both chunks.
Schedule generate(const ScheduleSpec& spec) {
  const int m = std::max(2 * spec.pp, spec.num_micro_batches);
  Schedule s{.name = "dualpipe-v", .num_micro_batches = m};
  for (int r = 0; r < spec.pp; ++r) {
    s.lanes.push_back(dualpipe_lane({.depth = spec.pp, .place = r, .stream_micro_batches = m}));
    s.stage_of.push_back({r, 2 * spec.pp - 1 - r});
  }
  s.max_in_flight = peak_in_flight(s);
  return m == spec.num_micro_batches ? s : first_micro_batches(std::move(s), spec.num_micro_batches);
}

}  // namespace

ScheduleRow dualpipe_v_schedule() {
  return {.name = "dualpipe-v",
          .words = "two chunks in a V, forwards merged with backwards of the other chunk",
          .generate = generate,
          .min_chunks = 2,
          .max_chunks = 2,
          .needs_split_backward = true,
          .needs_merged = true,
          .v_shape = true};
}

}  // namespace mt
