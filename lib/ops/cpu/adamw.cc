#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {
constexpr Count kBlock = 2048;          // elements of the five streams that stay in the nearest cache
constexpr Count kThreadBlock = 131072;  // elements a thread takes
}  // namespace

void adamw(const Stream& stream, const AdamwArgs& g) {
  const AdamwScalars now = *g.scalars;
  if (now.skip != 0) return;
  const AdamwStep step{now.lr * g.lr_multiplier,
                       now.grad_scale,
                       now.bias_correction_1,
                       now.bias_correction_2,
                       g.beta1,
                       g.beta2,
                       g.epsilon,
                       g.weight_decay};
  float *master = g.master.as<float>(), *m = g.exp_avg.as<float>(), *v = g.exp_avg_sq.as<float>();
  parallel_ranges(stream, g.master.size(), kThreadBlock, [&](Count lo, Count hi) {
    const Scratch s(kBlock);
    for (Count i = lo; i < hi; i += kBlock) {
      const Count n = hi - i < kBlock ? hi - i : kBlock;
      vector().adamw(master + i, m + i, v + i, read(g.grad.dtype, element(g.grad, i), n, s.at(0)), step, n);
      if (g.model) from_f32(g.model.dtype, master + i, element(g.model, i), n);
    }
  });
}

}  // namespace mt::ops::cpu
