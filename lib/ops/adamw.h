#pragma once
// One AdamW step over a flat range of parameters, fused with the rounding to the model's dtype.
//
//   g = grad·grad_scale              m = β1·m + (1−β1)·g          v = β2·v + (1−β2)·g²
//   w = w·(1 − lr·decay) − lr/c1 · m / (sqrt(v/c2) + epsilon)     c1 = 1−β1^step, c2 = 1−β2^step
// A moment in f16 or e4m3 that is above zero and in the second place is never rounded to zero.
// Element by element, so any cut of the range gives the same bits. Source: Loshchilov & Hutter, arXiv:1711.05101, in
// PyTorch's order of operations. Code: ops/adamw.cc, ops/cpu/adamw.cc. Tests: tests/ops/adamw_test.cc.

#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

// What changes every step; lives in device memory so that the launch itself does not change.
struct AdamwScalars {
  float lr;
  float grad_scale;         // clip factor / loss scale
  float bias_correction_1;  // c1 = adamw_bias_correction(beta1, step)
  float bias_correction_2;  // c2
  float skip;               // not 0: nothing is read or written (an overflow step)
};

// 1 − beta^step, step counted from 1, by repeated squaring in double (no libm), rounded to f32.
float adamw_bias_correction(float beta, std::int64_t step);

// How a moment is stored: value = stored · scale. Pointers into device memory; null: 1.
struct MomentScale {
  const float* now = nullptr;   // of what is stored before the step
  const float* next = nullptr;  // of what is stored after it
};

struct AdamwArgs {
  View master;               // f32 [n], updated
  View exp_avg, exp_avg_sq;  // f32, bf16, f16 or e4m3 [n], updated, computed in f32 and rounded once
  View grad;                 // f32 or bf16 [n]
  View model;                // [n] in the model's dtype, written with the rounded master; absent for f32 models
  const AdamwScalars* scalars = nullptr;  // device memory
  float lr_multiplier = 1;                // of this parameter group
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0.01f;
  MomentScale exp_avg_scale, exp_avg_sq_scale;
};

// needs  all contiguous and of equal size   cost  28 bytes an element (30 with a bf16 copy)
void adamw(Stream& stream, const AdamwArgs& args);

struct AdamwLargestArgs {
  AdamwArgs step;                  // the step to be taken; nothing of it is written
  float* exp_avg = nullptr;        // device memory; null: not wanted
  float* exp_avg_sq = nullptr;
};
// The largest magnitudes the moments have after adamw(step), each noted where it is above what is there.
//   cost  12 bytes an element with f32 moments
void adamw_largest(Stream& stream, const AdamwLargestArgs& args);

struct MomentScalesArgs {
  View largest, next;    // f32 [n]
  DType dtype[2] = {};   // of what is in even places and in odd ones: f16, or e4m3
};
// next = moment_scale(largest), place by place.
void moment_scales(Stream& stream, const MomentScalesArgs& args);

// The least power of two, 2^-100 at least, with largest / scale ≤ 448 (e4m3) or 65504 (f16); 1 for what is not above zero
// or not finite.
MT_HD inline float moment_scale(float largest, DType dtype) {
  if (!(largest > 0)) return 1;
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(largest) / (dtype == DType::f16 ? 65504.0 : 448.0));
  const int field = static_cast<int>(bits >> 52);
  if (field == 2047) return 1;
  const int up = field - 1023 + ((bits & 0xfffffffffffffu) != 0 ? 1 : 0), exponent = up < -100 ? -100 : up;
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

Cost adamw_cost(std::int64_t count, int model_bytes);

}  // namespace mt::ops
