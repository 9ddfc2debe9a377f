#include "schedule/list_schedule.h"

namespace mt {

namespace {

Schedule generate(const ScheduleSpec& spec) {
  ListProblem p{{}, spec.num_micro_batches, spec.memory_cap > 0 ? spec.memory_cap : spec.pp, spec.durations, {}};
  for (int r = 0; r < spec.pp; ++r) p.stage_of.push_back({r});
  return best_list_schedule("zb-1p", p);
}

}  // namespace

ScheduleRow zb_1p_schedule() {
  return {.name = "zb-1p",
          .words = "split backward, searched for the given times within pp activations a rank, or the cap given",
          .generate = generate,
          .needs_split_backward = true};
}

}  // namespace mt
