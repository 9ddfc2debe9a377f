#include "schedule/one_f_one_b.h"
#include "schedule/passes.h"

namespace mt {

namespace {

// Rank r keeps r weight gradients back: where 1F1B's rank waits for the gradient at the end, it has them to do.
Schedule generate(const ScheduleSpec& spec) {
  std::vector<int> delay;
  for (int r = 0; r < spec.pp; ++r) delay.push_back(r);
  return defer_weight_gradients(one_forward_one_backward("zb-h1", spec, 1), delay);
}

}  // namespace

ScheduleRow zb_h1_schedule() {
  return {.name = "zb-h1",
          .words = "1F1B with weight gradients in the gaps at the end; no more activations than 1F1B's first rank",
          .generate = generate,
          .needs_split_backward = true};
}

}  // namespace mt
