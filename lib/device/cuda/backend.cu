#include "device/backend.h"

#include "base/error.h"
#include "device/cuda/driver_view.h"
#include "device/cuda/memory_cache.h"

namespace mt {

namespace cuda {
namespace {

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

cudaError_t ask_count(int* count) {
  *count = 0;
  const cudaError_t error = cudaGetDeviceCount(count);
  if (error != cudaSuccess) {
    *count = 0;
    cudaGetLastError();
  }
  return error;
}

int count() {
  int n = 0;
  ask_count(&n);
  return n;
}

std::string why_none() {
  int n = 0;
  const cudaError_t error = ask_count(&n);
  if (n > 0) return "";
  const std::string words = error != cudaSuccess ? cudaGetErrorString(error) : "none is visible", driver = driver_text();
  return driver.empty() ? words : words + " (" + driver + ")";
}

std::string name(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties", device);
  return properties.name;
}

DeviceMemory memory(int device) {
  char bus[32];
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess)
    if (const auto m = driver_memory(bus)) return *m;
  cudaGetLastError();
  use_device(device);
  DeviceMemory m;
  check(cudaMemGetInfo(&m.free, &m.total), "cudaMemGetInfo", device);
  return m;
}

void need(int device) {
  const int n = count();
  if (n == 0)
    throw Error(Code::device, "no CUDA device: " + why_none(), device_text({DeviceKind::cuda, device}),
                "use --device cpu");
  if (device < 0 || device >= n)
    throw Error(Code::device, fmt::format("{} CUDA device{} visible", n, n == 1 ? " is" : "s are"),
                device_text({DeviceKind::cuda, device}), "start fewer ranks, or look at CUDA_VISIBLE_DEVICES");
  constexpr int kLeast = 80;  // asynchronous copies to shared memory, and bf16
  if (const int has = compute_capability(device); has < kLeast)
    throw Error(Code::device, fmt::format("compute capability {}.{}, kernels want {}.{} or more", has / 10, has % 10, kLeast / 10, kLeast % 10),
                device_text({DeviceKind::cuda, device}), "take another device by CUDA_VISIBLE_DEVICES, or --device cpu");
}

std::byte* acquire(int device, std::size_t bytes) {
  need(device);
  MemoryCache& cache = memory_cache(device);
  std::byte* data = cache.acquire(bytes);
  if (!data) return nullptr;
  const cudaStream_t own = cache.own_stream();
  check(cudaMemsetAsync(data, 0, bytes, own), "cudaMemsetAsync", device);
  check(cudaStreamSynchronize(own), "cudaStreamSynchronize", device);
  return data;
}

// For destructors: that a device is lost is said by the next call that may throw.
template <class F>
void quietly(const F& f) noexcept {
  try {
    f();
  } catch (const Error&) {
  }
}

void give_back(int device, std::byte* data, std::size_t) {
  quietly([&] { memory_cache(device).give_back(data); });
}

std::byte* acquire_pinned(std::size_t bytes) {
  need(0);
  std::byte* data = cuda::take_pinned(bytes);
  if (data) __builtin_memset(data, 0, bytes);
  return data;
}

void release_pinned(std::byte* data, std::size_t bytes) {
  quietly([&] { cuda::give_back_pinned(data, bytes); });
}

void* make_stream(int device, bool goes_first) {
  need(device);
  use_device(device);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, goes_first ? greatest : least), "cudaStreamCreate",
        device);
  memory_cache(device).add_stream(stream);
  return stream;
}

void destroy_stream(int device, void* stream) {
  quietly([&] {
    use_device(device);
    memory_cache(device).remove_stream(stream_of(stream));
    check(cudaStreamDestroy(stream_of(stream)), "cudaStreamDestroy", device);
  });
}

void synchronize_stream(int device, void* stream) {
  check(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize", device);
}

void* make_event(int device) {
  use_device(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", device);
  return event;
}

void destroy_event(int device, void* event) {
  quietly([&] { check(cudaEventDestroy(event_of(event)), "cudaEventDestroy", device); });
}

void record_event(int device, void* event, void* stream) {
  use_device(device);
  check(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord", device);
}

void wait_event(int device, void* stream, void* event) {
  use_device(device);
  check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent", device);
}

void synchronize_event(int device, void* event) {
  check(cudaEventSynchronize(event_of(event)), "cudaEventSynchronize", device);
}

bool event_done(int device, void* event) {
  const cudaError_t state = cudaEventQuery(event_of(event));
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // it is no error
    return false;
  }
  check(state, "cudaEventQuery", device);
  return true;
}

void copy(int device, void* stream, void* dst, const void* src, std::size_t bytes) {
  use_device(device);
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync", device);
}

void zero(int device, void* stream, void* dst, std::size_t bytes) {
  use_device(device);
  check(cudaMemsetAsync(dst, 0, bytes, stream_of(stream)), "cudaMemsetAsync", device);
}

// Of this thread alone: another rank of the process may take memory meanwhile.
void begin_capture(int device, void* stream) {
  use_device(device);
  check(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize", device);
  memory_cache(device).begin_capture(stream_of(stream));
  check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", device);
}

void* end_capture(int device, void* stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream_of(stream), &graph);
  memory_cache(device).end_capture(stream_of(stream));
  if (error != cudaSuccess || !graph) {
    cudaGetLastError();
    return nullptr;
  }
  cudaGraphExec_t ready = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate", device);
  return ready;
}

void launch_graph(int device, void* stream, void* graph) {
  use_device(device);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)), "cudaGraphLaunch", device);
}

void destroy_graph(int device, void* graph) {
  quietly([&] { check(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)), "cudaGraphExecDestroy", device); });
}

}  // namespace
}  // namespace cuda

const DeviceBackend& cuda_backend() {
  static constexpr DeviceBackend backend = {
      .count = cuda::count,
      .why_none = cuda::why_none,
      .name = cuda::name,
      .capability = cuda::compute_capability,
      .emulated = cuda::kEmulated,
      .memory = cuda::memory,
      .acquire = cuda::acquire,
      .give_back = cuda::give_back,
      .acquire_pinned = cuda::acquire_pinned,
      .give_back_pinned = cuda::release_pinned,
      .make_stream = cuda::make_stream,
      .destroy_stream = cuda::destroy_stream,
      .synchronize_stream = cuda::synchronize_stream,
      .make_event = cuda::make_event,
      .destroy_event = cuda::destroy_event,
      .record_event = cuda::record_event,
      .wait_event = cuda::wait_event,
      .synchronize_event = cuda::synchronize_event,
      .event_done = cuda::event_done,
      .copy = cuda::copy,
      .zero = cuda::zero,
      .begin_capture = cuda::begin_capture,
      .end_capture = cuda::end_capture,
      .launch_graph = cuda::launch_graph,
      .destroy_graph = cuda::destroy_graph,
  };
  return backend;
}

}  // namespace mt
