#pragma once
// Scales and rounding of the fp8 formats on the device: fp8_scale of ops/fp8.h, in integers.

#include <bit>

#include "ops/cuda/elements.h"

namespace mt::ops::cuda {

__device__ inline unsigned magnitude(float x) { return std::bit_cast<unsigned>(x) & 0x7fffffffu; }

// fp8_scale of ops/fp8.h: both formats' largest number is 1.75·2^k.
__device__ inline float scale_for(unsigned amax, int largest_exponent, int margin) {
  if (amax == 0 || amax >= 0x7f800000u) return 1;
  int exponent = static_cast<int>(amax >> 23) - 127;
  unsigned mantissa = amax & 0x7fffffu;
  if (exponent == -127) {
    exponent = -126;
    while ((mantissa & 0x800000u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x7fffffu;
  }
  int e = largest_exponent - exponent - (mantissa > 0x600000u ? 1 : 0) - margin;
  e = e < -100 ? -100 : e > 100 ? 100 : e;
  return std::bit_cast<float>(static_cast<unsigned>(e + 127) << 23);
}

struct Format {
  int e4m3;
  int margin;
  __device__ float scale(unsigned amax) const { return scale_for(amax, e4m3 ? 8 : 15, margin); }
  // The bits of x·by in the format.
  __device__ unsigned bits(float x, float by) const { return e4m3 ? to_e4m3(x * by).bits : to_e5m2(x * by).bits; }
  __device__ void round(float (&x)[kGroup], float by) const {
    const float inverse = 1 / by;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] = (e4m3 ? to_f32(to_e4m3(x[i] * by)) : to_f32(to_e5m2(x[i] * by))) * inverse;
  }
};

}  // namespace mt::ops::cuda
