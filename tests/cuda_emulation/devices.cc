// Devices, what calls say, and what memory there is.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "queues.h"

namespace mt::emulation {

namespace {
thread_local cudaError_t last_error = cudaSuccess;
}

cudaError_t say(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

}  // namespace mt::emulation

using namespace mt::emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count == 0 ? say(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return say(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return say(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated device");
  properties->totalGlobalMem = device_bytes();
  properties->sharedMemPerBlockOptin = kMaxSharedBytes;
  properties->multiProcessorCount = 4;
  const int capability = static_cast<int>(from_environment("MT_EMULATION_CAPABILITY", 90));
  properties->major = capability / 10;
  properties->minor = capability % 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "emulated:%d", device);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -1;
  if (is_device_memory(data, &attributes->device)) attributes->type = cudaMemoryTypeDevice;
  else if (is_emulated_memory(data)) attributes->type = cudaMemoryTypeHost;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = device_bytes_free(current_device());
  *total = device_bytes();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(mt::emulation::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
  }
  return "?";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorNoDevice: return "no emulated device is visible";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
  }
  return "?";
}
