#include "schedule/one_f_one_b.h"

#include <algorithm>

namespace mt {

Schedule one_forward_one_backward(const std::string& name, const ScheduleSpec& spec, int slope) {
  const int m = spec.num_micro_batches;
  Schedule s{.name = name, .num_micro_batches = m};
  for (int r = 0; r < spec.pp; ++r) {
    Lane lane;
    const int warm_up = std::min(slope * (spec.pp - r - 1), m);
    for (int i = 0; i < m + warm_up; ++i) {
      if (i < m) lane.push_back({.act = Act::forward, .micro_batch = i});
      if (i >= warm_up) lane.push_back({.act = Act::backward, .micro_batch = i - warm_up});
    }
    s.lanes.push_back(std::move(lane));
    s.stage_of.push_back({r});
    s.max_in_flight.push_back(std::min(warm_up + 1, m));
  }
  return s;
}

Schedule one_f_one_b(int pp, int num_micro_batches) {
  return one_forward_one_backward("1f1b", {.pp = pp, .num_micro_batches = num_micro_batches}, 1);
}

ScheduleRow one_f_one_b_schedule() {
  return {.name = "1f1b",
          .words = "as few forwards as fill the pipeline, then one forward one backward",
          .generate = [](const ScheduleSpec& spec) { return one_forward_one_backward("1f1b", spec, 1); }};
}

}  // namespace mt
