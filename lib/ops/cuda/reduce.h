#pragma once
// Sums and maxima over the lanes of a warp and the warps of a block, in a fixed order.

#include "ops/cuda/elements.h"

namespace mt::ops::cuda {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct LargestOrNan {
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

// Every lane gets the result. Lanes take turns as equals: a + b is b + a, so all hold the same bits.
template <class F>
__device__ inline float over_warp(float x, const F& f) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = f(x, __shfl_xor_sync(kLaneMask, x, step));
  return x;
}

// Every thread of `warps` warps gets the result; slots: one float a warp, used by one reduction alone.
template <class F>
__device__ inline float over_block(float x, float* slots, const F& f) {
  x = over_warp(x, f);
  if (blockDim.x == 32) return x;
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = x;
  __syncthreads();
  float all = slots[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) all = f(all, slots[w]);
  return all;
}

// The same for the bits of magnitudes, which compare as unsigned numbers do; the result is noted by one thread.
__device__ inline void note_largest(unsigned bits, unsigned* slots, unsigned* to) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const unsigned other = __shfl_xor_sync(kLaneMask, bits, step);
    bits = other > bits ? other : bits;
  }
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = bits;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned w = 1; w < blockDim.x / 32; ++w) bits = slots[w] > bits ? slots[w] : bits;
  atomicMax(to, bits);
}

}  // namespace mt::ops::cuda
