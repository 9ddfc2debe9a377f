#include "schedule/schedule.h"

namespace mt {

namespace {

// All forwards, then all backwards, first micro-batch first: weight gradients are added in one order everywhere.
Schedule generate(const ScheduleSpec& spec) {
  const int m = spec.num_micro_batches;
  Schedule s{.name = "gpipe", .num_micro_batches = m};
  for (int r = 0; r < spec.pp; ++r) {
    Lane lane;
    for (int i = 0; i < m; ++i) lane.push_back({.act = Act::forward, .micro_batch = i});
    for (int i = 0; i < m; ++i) lane.push_back({.act = Act::backward, .micro_batch = i});
    s.lanes.push_back(std::move(lane));
    s.stage_of.push_back({r});
    s.max_in_flight.push_back(m);
  }
  return s;
}

}  // namespace

Schedule gpipe(int pp, int num_micro_batches) { return generate({.pp = pp, .num_micro_batches = num_micro_batches}); }

ScheduleRow gpipe_schedule() {
  return {.name = "gpipe", .words = "all forwards, then all backwards", .generate = generate};
}

}  // namespace mt
