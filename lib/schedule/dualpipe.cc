#include <algorithm>

#include "schedule/dualpipe_lane.h"

namespace mt {

namespace {

std::string problem(const ScheduleSpec& spec) {
  return spec.pp % 2 == 0 ? "" : "two streams meet in the middle, so the number of ranks is even";
}

// Two streams enter at both ends; rank r holds stage r for the one and stage pp − 1 − r for the other.
Schedule generate(const ScheduleSpec& spec) {
  // Fewer micro-batches than fill the pipe: those of the smallest full one.
  const int m = std::max(2 * spec.pp, spec.num_micro_batches + spec.num_micro_batches % 2);
  Schedule s{.name = "dualpipe", .num_micro_batches = m, .copies = 2};
  for (int r = 0; r < spec.pp; ++r) {
    s.lanes.push_back(dualpipe_lane({.depth = spec.pp / 2,
                                     .place = std::min(r, spec.pp - 1 - r),
                                     .stream_micro_batches = m / 2,
                                     .swapped = r >= spec.pp / 2,
                                     .second_offset = m / 2}));
    s.stage_of.push_back({r, spec.pp - 1 - r});
  }
  s.max_in_flight = peak_in_flight(s);
  return m == spec.num_micro_batches ? s : first_micro_batches(std::move(s), spec.num_micro_batches);
}

}  // namespace

ScheduleRow dualpipe_schedule() {
  return {.name = "dualpipe",
          .words = "two streams from both ends, forwards merged with backwards; holds two copies of the weights",
          .generate = generate,
          .problem = problem,
          .min_chunks = 2,
          .max_chunks = 2,
          .needs_split_backward = true,
          .needs_merged = true,
          .copies = 2};
}

}  // namespace mt
