#pragma once
// Calls into the CUDA runtime that throw, and the device of the calling thread.
//
// Code: device/cuda/runtime.cu. Tests: tests/device/accelerator_test.cc.

#include <cuda_runtime.h>

#include "device/stream.h"

namespace mt::cuda {

#if defined(MT_CUDA_EMULATED)
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

// Throws Error{device} that names the call, the device and the runtime's words.
[[noreturn]] void fail(cudaError_t error, const char* call, int device);

inline void check(cudaError_t error, const char* call, int device) {
  if (error != cudaSuccess) fail(error, call, device);
}

// Make `device` the one that calls of this thread go to.   cost  nothing when it is already
void use_device(int device);

// 10·major + minor of the compute capability: 80, 89, 90, 100.   cost  nothing after the first call for a device
int compute_capability(int device);

inline cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace mt::cuda
