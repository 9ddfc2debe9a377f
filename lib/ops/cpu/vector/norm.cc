#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {

MT_LANES float inverse_root(float mean_square, float epsilon) { return 1.0f / __builtin_sqrtf(mean_square + epsilon); }

}  // namespace

float rms_forward(const float* x, const float* weight, float shift, float epsilon, float* out, Count n) {
  const float square = dot(x, x, n);
  const float rstd = inverse_root(square / static_cast<float>(n), epsilon);
  MT_EACH for (Count i = 0; i < n; ++i) out[i] = x[i] * rstd * (weight[i] + shift);
  return rstd;
}

void rms_backward(const float* dout, const float* x, const float* weight, float shift, float rstd,
                  const float* dresidual, float* dx, Count n) {
  const Lanes s = all(shift);
  const float gx = sum_over(
      n, [=](auto at) __attribute__((always_inline)) { return at(dout) * (at(weight) + s) * at(x); });
  const float c = gx / static_cast<float>(n) * rstd * rstd;
  if (dresidual != nullptr)
    MT_EACH for (Count i = 0; i < n; ++i) dx[i] = rstd * (dout[i] * (weight[i] + shift) - x[i] * c) + dresidual[i];
  else MT_EACH for (Count i = 0; i < n; ++i) dx[i] = rstd * (dout[i] * (weight[i] + shift) - x[i] * c);
}

void rms_columns(const float* dout, const float* x, float rstd, float* dweight, Count n) {
  MT_EACH for (Count i = 0; i < n; ++i) dweight[i] += dout[i] * (x[i] * rstd);
}

void layer_forward(const float* x, const float* weight, const float* bias, float shift, float epsilon, float* out,
                   Count n, float* mean_rstd) {
  const float count = static_cast<float>(n);
  const float mean = sum_over(
                         n, [=](auto at) __attribute__((always_inline)) { return at(x); }) /
                     count;
  // Around the mean; the lanes of a partial block that hold nothing would each add mean².
  Lanes acc = all(0.0f);
  const Lanes m = all(mean);
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes d = load(x + i) - m;
    acc += d * d;
  }
  Lanes rest = all(0.0f);
  for (Count l = 0; i + l < n; ++l) {
    const float d = x[i + l] - mean;
    rest[l] = d * d;
  }
  const float rstd = inverse_root(total(acc + rest) / count, epsilon);
  for (i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * (weight[i] + shift) + bias[i];
  mean_rstd[0] = mean;
  mean_rstd[1] = rstd;
}

void layer_backward(const float* dout, const float* x, const float* weight, float shift, const float* mean_rstd,
                    const float* dresidual, float* dx, Count n) {
  const float mean = mean_rstd[0], rstd = mean_rstd[1], count = static_cast<float>(n);
  const Lanes s = all(shift), m = all(mean), r = all(rstd);
  const float g = sum_over(
      n, [=](auto at) __attribute__((always_inline)) { return at(dout) * (at(weight) + s); });
  const float gn = sum_over(
      n, [=](auto at) __attribute__((always_inline)) { return at(dout) * (at(weight) + s) * ((at(x) - m) * r); });
  const float mean_g = g / count, mean_gn = gn / count;
  if (dresidual != nullptr)
    MT_EACH for (Count i = 0; i < n; ++i) dx[i] =
        rstd * (dout[i] * (weight[i] + shift) - mean_g - (x[i] - mean) * rstd * mean_gn) + dresidual[i];
  else
    MT_EACH for (Count i = 0; i < n; ++i) dx[i] =
        rstd * (dout[i] * (weight[i] + shift) - mean_g - (x[i] - mean) * rstd * mean_gn);
}

void layer_columns(const float* dout, const float* x, const float* mean_rstd, float* dweight, float* dbias, Count n) {
  const float mean = mean_rstd[0], rstd = mean_rstd[1];
  MT_EACH for (Count i = 0; i < n; ++i) dweight[i] += dout[i] * ((x[i] - mean) * rstd);
  MT_EACH for (Count i = 0; i < n; ++i) dbias[i] += dout[i];
}

}  // namespace mt::ops::cpu::MT_ISA
