#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {
constexpr Count kBlock = 256;  // exponentials computed before they are added: stays in the nearest cache
}

void exp_sums(const float* x, float max, Count n, float* sums) {
  float e[kBlock], d[kBlock];
  Lanes exps = all(0.0f), logits = all(0.0f);
  for (Count at = 0; at < n; at += kBlock) {
    const Count count = n - at < kBlock ? n - at : kBlock, padded = (count + kLanes - 1) / kLanes * kLanes;
    MT_EACH for (Count i = 0; i < count; ++i) d[i] = x[at + i] - max;
    MT_EACH for (Count i = 0; i < count; ++i) e[i] = exp_f32(d[i]);
    for (Count i = count; i < padded; ++i) d[i] = e[i] = 0.0f;
    for (Count i = 0; i < padded; i += kLanes) {
      exps += load(e + i);
      logits += load(d + i);
    }
  }
  sums[0] = total(exps);
  sums[1] = total(logits);
}

void softmax_gradient(const float* x, float max, float factor, float subtract, float* out, Count n) {
  MT_EACH for (Count i = 0; i < n; ++i) out[i] = exp_f32(x[i] - max) * factor - subtract;
}

float exp_row(float* x, float max, Count n) {
  Lanes sum = all(0.0f);
  for (Count at = 0; at < n; at += kBlock) {
    const Count count = n - at < kBlock ? n - at : kBlock;
    MT_EACH for (Count i = 0; i < count; ++i) x[at + i] = exp_f32(x[at + i] - max);
    Count i = at;
    for (; i + kLanes <= at + count; i += kLanes) sum += load(x + i);
    if (i < at + count) sum += load_part(x + i, at + count - i);
  }
  return total(sum);
}

void softmax_backward(const float* p, const float* dp, float delta, float scale, float* ds, Count n) {
  MT_EACH for (Count i = 0; i < n; ++i) ds[i] = p[i] * (dp[i] - delta) * scale;
}

void adamw(float* master, float* exp_avg, float* exp_avg_sq, const float* grad, const AdamwStep& step, Count n) {
  const float keep = 1.0f - step.lr * step.weight_decay, rate = step.lr / step.c1, root_c2 = __builtin_sqrtf(step.c2);
  const float b1 = step.beta1, b2 = step.beta2, a1 = 1.0f - b1, a2 = 1.0f - b2, gs = step.grad_scale;
  const float epsilon = step.epsilon;
  MT_EACH for (Count i = 0; i < n; ++i) {
    const float g = grad[i] * gs;
    const float m = exp_avg[i] * b1 + g * a1;
    const float v = exp_avg_sq[i] * b2 + (g * g) * a2;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = master[i] * keep - rate * (m / (__builtin_sqrtf(v) / root_c2 + epsilon));
  }
}

}  // namespace mt::ops::cpu::MT_ISA
