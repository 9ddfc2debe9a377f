#include "device/cuda/runtime.h"

#include <map>
#include <mutex>
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

int compute_capability(int device) {
  static std::mutex mutex;
  static std::map<int, int> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(device, 0);
  if (is_new) {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute", device);
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute", device);
    at->second = 10 * major + minor;
  }
  return at->second;
}

}  // namespace mt::cuda
