#include "device/cuda/runtime.h"

#include <string_view>

#include "base/error.h"

namespace mt::cuda {

void fail(cudaError_t error, const char* call, int device) {
  const std::string_view name = cudaGetErrorName(error);
  throw Error(Code::device, fmt::format("{}: {} ({})", call, cudaGetErrorString(error), name),
              device < 0 ? std::string("cuda") : device_text({DeviceKind::cuda, device}),
              name == "cudaErrorMemoryAllocation" ? "use a smaller micro-batch, more ranks, or recompute"
                                                  : "an earlier kernel may be the cause: CUDA_LAUNCH_BLOCKING=1 names it");
}

void use_device(int device) {
  thread_local int current = -1;
  if (current == device) return;
  check(cudaSetDevice(device), "cudaSetDevice", device);
  current = device;
}

}  // namespace mt::cuda
