#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

// A moment as stored, and the factors between that and its value.
struct Moment {
  Elements at;
  const float *now, *next;

  Moment(const View& v, const MomentScale& s) : at(flat(v)), now(s.now), next(s.next) {}

  __device__ void read(Count i, int count, float (&x)[kGroup]) const {
    load(at, 0, i, count, x);
    if (at.dtype == DType::f32 || now == nullptr) return;
    const float by = *now;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) x[j] *= by;
  }
  // kSecond: what is above zero stays above it, at the smallest number there is.
  template <bool kSecond>
  __device__ void write(Count i, int count, float (&x)[kGroup]) const {
    if (at.dtype != DType::f32 && next != nullptr) {
      const float by = 1 / *next;  // exact: a power of two
#pragma unroll
      for (int j = 0; j < kGroup; ++j) x[j] *= by;
    }
    if (kSecond && (at.dtype == DType::f16 || at.dtype == DType::e4m3)) {
      const float least = at.dtype == DType::f16 ? 0x1p-24f : 0x1p-9f;
#pragma unroll
      for (int j = 0; j < kGroup; ++j)
        if (x[j] > 0 && x[j] <= 0.5f * least) x[j] = least;
    }
    store(at, 0, i, count, x);
  }
};

struct Step {
  Elements grad;
  Moment exp_avg, exp_avg_sq;
  const AdamwScalars* scalars;
  float lr_multiplier, beta1, beta2, epsilon, weight_decay;

  explicit Step(const AdamwArgs& g)
      : grad(flat(g.grad)),
        exp_avg(g.exp_avg, g.exp_avg_scale),
        exp_avg_sq(g.exp_avg_sq, g.exp_avg_sq_scale),
        scalars(g.scalars),
        lr_multiplier(g.lr_multiplier),
        beta1(g.beta1),
        beta2(g.beta2),
        epsilon(g.epsilon),
        weight_decay(g.weight_decay) {}

  // The moments after the step, and the master weight in place.
  __device__ void take(Count at, int count, float (&w)[kGroup], float (&m)[kGroup], float (&v)[kGroup]) const {
    const AdamwScalars now = *scalars;
    const float lr = now.lr * lr_multiplier, keep = 1.0f - lr * weight_decay, rate = lr / now.bias_correction_1,
                root_c2 = sqrtf(now.bias_correction_2), a1 = 1.0f - beta1, a2 = 1.0f - beta2;
    float d[kGroup];
    load(grad, 0, at, count, d);
    exp_avg.read(at, count, m);
    exp_avg_sq.read(at, count, v);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float g = d[i] * now.grad_scale;
      m[i] = m[i] * beta1 + g * a1;
      v[i] = v[i] * beta2 + (g * g) * a2;
      w[i] = w[i] * keep - rate * (m[i] / (sqrtf(v[i]) / root_c2 + epsilon));
    }
  }
};

struct Adamw {
  Step step;
  Elements master, model;
  __device__ void operator()(Count, Count at, int count) const {
    if (step.scalars->skip != 0) return;
    float w[kGroup], m[kGroup], v[kGroup];
    load(master, 0, at, count, w);
    step.take(at, count, w, m, v);
    store(master, 0, at, count, w);
    if (model.data != nullptr) store(model, 0, at, count, w);
    step.exp_avg.write<false>(at, count, m);
    step.exp_avg_sq.write<true>(at, count, v);
  }
};

__global__ void largest_moments(Step step, Count n, float* exp_avg, float* exp_avg_sq) {
  if (step.scalars->skip != 0) return;
  float most_m = 0, most_v = 0;
  for (Count at = (static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x) * kGroup; at < n;
       at += static_cast<Count>(gridDim.x) * blockDim.x * kGroup) {
    const int count = n - at < kGroup ? static_cast<int>(n - at) : kGroup;
    float w[kGroup] = {}, m[kGroup], v[kGroup];
    step.take(at, count, w, m, v);
    for (int i = 0; i < kGroup; ++i) {
      const float size = m[i] < 0 ? -m[i] : m[i];
      if (i < count && most_m < size) most_m = size;
      if (i < count && most_v < v[i]) most_v = v[i];
    }
  }
  auto* slots = shared_mem<unsigned>();
  if (exp_avg != nullptr) note_largest(std::bit_cast<unsigned>(most_m), slots, reinterpret_cast<unsigned*>(exp_avg));
  if (exp_avg_sq != nullptr)
    note_largest(std::bit_cast<unsigned>(most_v), slots + 32, reinterpret_cast<unsigned*>(exp_avg_sq));
}

__global__ void choose_scales(const float* largest, float* next, Count n, DType even, DType odd) {
  const Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) next[i] = moment_scale(largest[i], i % 2 == 0 ? even : odd);
}

}  // namespace

void moment_scales(const Stream& stream, const MomentScalesArgs& g) {
  const Count n = g.next.size();
  launch(stream, choose_scales, {.x = static_cast<unsigned>(ceil_div(n, kThreads)), .threads = kThreads},
         static_cast<const float*>(g.largest.data), static_cast<float*>(g.next.data), n, g.dtype[0], g.dtype[1]);
}

void adamw(const Stream& stream, const AdamwArgs& g) {
  each_group(stream, 1, g.master.size(), Adamw{Step(g), flat(g.master), flat(g.model)});
}

void adamw_largest(const Stream& stream, const AdamwLargestArgs& g) {
  const Count n = g.step.master.size(), blocks = ceil_div(n, kThreads * kGroup);
  launch(stream, largest_moments,
         {.x = static_cast<unsigned>(blocks < 1024 ? blocks : 1024), .threads = kThreads, .shared_bytes = 64 * 4},
         Step(g.step), n, g.exp_avg, g.exp_avg_sq);
}

}  // namespace mt::ops::cuda
