#include "schedule/one_f_one_b.h"
#include "schedule/passes.h"

namespace mt {

namespace {

// Twice the warm-up of 1F1B fills the gaps at the start too; rank r keeps 2r weight gradients back.
Schedule generate(const ScheduleSpec& spec) {
  std::vector<int> delay;
  for (int r = 0; r < spec.pp; ++r) delay.push_back(2 * r);
  return defer_weight_gradients(one_forward_one_backward("zb-h2", spec, 2), delay);
}

}  // namespace

ScheduleRow zb_h2_schedule() {
  return {.name = "zb-h2",
          .words = "zb-h1 with twice the warm-up: no bubble at equal times, up to 2 pp - 1 activations",
          .generate = generate,
          .needs_split_backward = true};
}

}  // namespace mt
