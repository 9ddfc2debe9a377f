#include "schedule/list_schedule.h"

namespace mt {

namespace {

// Two chunks a rank, down the ranks and up again: loss and embedding are on rank 0, and all ranks wait alike.
Schedule generate(const ScheduleSpec& spec) {
  ListProblem p{{}, spec.num_micro_batches, spec.memory_cap > 0 ? spec.memory_cap : spec.pp, spec.durations};
  for (int r = 0; r < spec.pp; ++r) p.stage_of.push_back({r, 2 * spec.pp - 1 - r});
  return best_list_schedule("zb-v", p);
}

}  // namespace

ScheduleRow zb_v_schedule() {
  return {.name = "zb-v",
          .words = "split backward over two chunks in a V, searched within the activations of 1F1B's first rank",
          .generate = generate,
          .min_chunks = 2,
          .max_chunks = 2,
          .needs_split_backward = true};
}

}  // namespace mt
