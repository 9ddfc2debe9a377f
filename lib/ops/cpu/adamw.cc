#include <algorithm>
#include <atomic>
#include <cmath>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

constexpr Count kBlock = 2048;          // elements of the five streams that stay in the nearest cache
constexpr Count kThreadBlock = 131072;  // elements a thread takes

AdamwStep step_of(const AdamwArgs& g, const AdamwScalars& now) {
  return {now.lr * g.lr_multiplier, now.grad_scale, now.bias_correction_1, now.bias_correction_2,
          g.beta1,                  g.beta2,        g.epsilon,             g.weight_decay};
}

// A moment's elements as f32: in place, or a copy.
float* load_moment(const View& v, Count at, Count n, const float* scale, float* copy) {
  if (v.dtype == DType::f32) return static_cast<float*>(element(v, at));
  if (v.dtype == DType::e4m3) {
    const auto* from = static_cast<const e4m3*>(element(v, at));
    for (Count i = 0; i < n; ++i) copy[i] = mt::to_f32(from[i]);
  } else {
    to_f32(v.dtype, element(v, at), copy, n);
  }
  if (scale != nullptr) vector().scale(copy, *scale, copy, n);
  return copy;
}

// What is above zero stays above it: `least` are the bits of the smallest number.
template <class T>
void keep_above_zero(const float* x, T* out, Count n) {
  for (Count i = 0; i < n; ++i)
    if (x[i] > 0 && out[i].bits == 0) out[i].bits = 1;
}

void store_moment(const View& v, Count at, Count n, const float* scale, float* x, bool second) {
  if (v.dtype == DType::f32) return;
  if (scale != nullptr) vector().scale(x, 1 / *scale, x, n);  // exact: a power of two
  void* to = element(v, at);
  if (v.dtype == DType::e4m3) {
    auto* out = static_cast<e4m3*>(to);
    for (Count i = 0; i < n; ++i) out[i] = to_e4m3(x[i]);
    if (second) keep_above_zero(x, out, n);
  } else {
    from_f32(v.dtype, x, to, n);
    if (second && v.dtype == DType::f16) keep_above_zero(x, static_cast<f16*>(to), n);
  }
}

void raise(float* to, float value) {
  std::atomic_ref<float> largest(*to);
  float before = largest.load();
  while (value > before && !largest.compare_exchange_weak(before, value)) {
  }
}

}  // namespace

void adamw(const Stream& stream, const AdamwArgs& g) {
  const AdamwScalars now = *g.scalars;
  if (now.skip != 0) return;
  const AdamwStep step = step_of(g, now);
  float* master = g.master.as<float>();
  parallel_ranges(stream, g.master.size(), kThreadBlock, [&](Count lo, Count hi) {
    const Scratch s(3 * kBlock);
    for (Count i = lo; i < hi; i += kBlock) {
      const Count n = hi - i < kBlock ? hi - i : kBlock;
      float* m = load_moment(g.exp_avg, i, n, g.exp_avg_scale.now, s.at(kBlock));
      float* v = load_moment(g.exp_avg_sq, i, n, g.exp_avg_sq_scale.now, s.at(2 * kBlock));
      vector().adamw(master + i, m, v, read(g.grad.dtype, element(g.grad, i), n, s.at(0)), step, n);
      store_moment(g.exp_avg, i, n, g.exp_avg_scale.next, m, false);
      store_moment(g.exp_avg_sq, i, n, g.exp_avg_sq_scale.next, v, true);
      if (g.model) from_f32(g.model.dtype, master + i, element(g.model, i), n);
    }
  });
}

void adamw_largest(const Stream& stream, const AdamwLargestArgs& args) {
  const AdamwArgs& g = args.step;
  const AdamwScalars now = *g.scalars;
  if (now.skip != 0) return;
  const AdamwStep step = step_of(g, now);
  parallel_ranges(stream, g.master.size(), kThreadBlock, [&](Count lo, Count hi) {
    const Scratch s(4 * kBlock);
    float most_m = 0, most_v = 0;
    for (Count i = lo; i < hi; i += kBlock) {
      const Count n = hi - i < kBlock ? hi - i : kBlock;
      float *w = s.at(kBlock), *m = s.at(2 * kBlock), *v = s.at(3 * kBlock);
      std::fill(w, w + n, 0.0f);
      const float* m_now = load_moment(g.exp_avg, i, n, g.exp_avg_scale.now, m);
      const float* v_now = load_moment(g.exp_avg_sq, i, n, g.exp_avg_sq_scale.now, v);
      if (m_now != m) std::copy(m_now, m_now + n, m);
      if (v_now != v) std::copy(v_now, v_now + n, v);
      vector().adamw(w, m, v, read(g.grad.dtype, element(g.grad, i), n, s.at(0)), step, n);
      for (Count j = 0; j < n; ++j) {
        most_m = std::max(most_m, std::fabs(m[j]));
        most_v = std::max(most_v, v[j]);
      }
    }
    if (args.exp_avg != nullptr) raise(args.exp_avg, most_m);
    if (args.exp_avg_sq != nullptr) raise(args.exp_avg_sq, most_v);
  });
}

void moment_scales(const Stream&, const MomentScalesArgs& g) {
  const auto* largest = g.largest.as<float>();
  auto* next = g.next.as<float>();
  for (Count i = 0; i < g.next.size(); ++i) next[i] = moment_scale(largest[i], g.dtype[i % 2]);
}

}  // namespace mt::ops::cpu
