#pragma once
// The one way to start a kernel, and the block's shared memory.
//
//   launch(stream, kernel, {.x = blocks, .threads = 256, .shared_bytes = n}, args...)
// Kernels take their arguments by value. Shared memory is dynamic only, of any size the device has: shared_mem<T>().
// Under tests/cuda_emulation/ the same call queues the kernel for the emulated device.
// Code: header only. Tests: tests/cuda_emulation/self_test/.

#include <cstddef>
#include <tuple>
#include <utility>

#include "device/cuda/runtime.h"

namespace mt::cuda {

struct Grid {
  unsigned x = 1, y = 1, z = 1;  // blocks
  unsigned threads = 1;          // of a block, in one dimension
  std::size_t shared_bytes = 0;
#if defined(MT_CUDA_EMULATED)
  emulation::Place where = emulation::Place::current();  // for messages
#endif
};

// 256-byte aligned memory of the stream's device, content undefined, for work queued on this stream until the next call
// for it.   cost  nothing while `bytes` is no more than it ever was
std::byte* scratch(const Stream& stream, std::size_t bytes);

#if defined(MT_CUDA_EMULATED)

template <class T>
T* shared_mem() {
  return reinterpret_cast<T*>(emulation::shared_memory());
}

template <class... P, class... A>
void launch(const Stream& stream, void (*kernel)(P...), const Grid& grid, A&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  std::tuple<P...> values(std::forward<A>(args)...);
  std::apply([&](auto&... v) { (emulation::check_argument(v, grid.where), ...); }, values);
  check(static_cast<cudaError_t>(emulation::queue_kernel(native(stream), {grid.x, grid.y, grid.z}, grid.threads,
                                                         grid.shared_bytes,
                                                         [kernel, values] { std::apply(kernel, values); }, grid.where)),
        "launch", stream.device().index);
}

#else

template <class T>
__device__ T* shared_mem() {
  extern __shared__ __align__(128) unsigned char mt_shared_bytes[];
  return reinterpret_cast<T*>(mt_shared_bytes);
}

// Above this a kernel has to ask for its shared memory first.
inline constexpr std::size_t kSharedWithoutAsking = 48 * 1024;

template <class... P, std::size_t... I>
void launch_values(const Stream& stream, const void* kernel, const Grid& grid, std::tuple<P...>& values,
                   std::index_sequence<I...>) {
  void* pointers[] = {static_cast<void*>(&std::get<I>(values))..., nullptr};
  check(cudaLaunchKernel(kernel, dim3(grid.x, grid.y, grid.z), dim3(grid.threads), pointers, grid.shared_bytes,
                         native(stream)),
        "cudaLaunchKernel", stream.device().index);
}

// A grid without blocks is nothing to do.   fails  Error{device} when the launch is refused
template <class... P, class... A>
void launch(const Stream& stream, void (*kernel)(P...), const Grid& grid, A&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  use_device(stream.device().index);
  const void* address = reinterpret_cast<const void*>(kernel);
  if (grid.shared_bytes > kSharedWithoutAsking)
    check(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared_bytes)),
          "cudaFuncSetAttribute", stream.device().index);
  std::tuple<P...> values(std::forward<A>(args)...);
  launch_values(stream, address, grid, values, std::index_sequence_for<P...>());
}

#endif

}  // namespace mt::cuda
