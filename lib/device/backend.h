#pragma once
// What an accelerator has to offer to Buffer, Stream and Event: one table of functions.
//
// The table is defined by exactly one of device/cuda/ (compiled by nvcc, or by the host's compiler against
// tests/cuda_emulation/) and device/absent/, which refuses. Handles are the backend's own and are given back to it alone.
// Every function throws Error{device} with the words of the runtime, except where it says null or false; what gives back
// or destroys never throws.
// Code: device/cuda/backend.cu, device/absent/cuda_absent.cc. Tests: tests/device/accelerator_test.cc.

#include <cstddef>
#include <string>

namespace mt {

struct DeviceMemory {
  std::size_t free = 0, total = 0;  // bytes
};

struct DeviceBackend {
  int (*count)();             // devices this process may use; 0 where there is no driver
  std::string (*why_none)();  // when count is 0, in the words of the runtime
  std::string (*name)(int device);
  int (*capability)(int device);  // 10·major + minor: 80, 89, 90, 100
  bool emulated;  // kernels run on the host's cores: nothing to take the time of
  DeviceMemory (*memory)(int device);

  // Zero-filled; null when memory is short. Memory given back is used again once everything that was launched on any
  // stream of the device before is done; giving back never waits.
  std::byte* (*acquire)(int device, std::size_t bytes);
  void (*give_back)(int device, std::byte* data, std::size_t bytes);
  // Host memory that every device reads and writes in place; zero-filled; null when memory is short.
  std::byte* (*acquire_pinned)(std::size_t bytes);
  void (*give_back_pinned)(std::byte* data, std::size_t bytes);

  // goes_first: its work is started before that of streams which do not, where both could start.
  void* (*make_stream)(int device, bool goes_first);
  void (*destroy_stream)(int device, void* stream);
  void (*synchronize_stream)(int device, void* stream);

  void* (*make_event)(int device);
  void (*destroy_event)(int device, void* event);
  void (*record_event)(int device, void* event, void* stream);
  void (*wait_event)(int device, void* stream, void* event);
  void (*synchronize_event)(int device, void* event);
  bool (*event_done)(int device, void* event);

  // In the stream's order, from and to any memory of the host or a device.
  void (*copy)(int device, void* stream, void* dst, const void* src, std::size_t bytes);
  void (*zero)(int device, void* stream, void* dst, std::size_t bytes);

  // Waits for the stream; from then on what is queued there is noted and not run, until end_capture, which gives it as a
  // graph, or null where something may not be noted.
  void (*begin_capture)(int device, void* stream);
  void* (*end_capture)(int device, void* stream);
  void (*launch_graph)(int device, void* stream, void* graph);
  void (*destroy_graph)(int device, void* graph);
};

//   fails  Error{device} in a build without CUDA
const DeviceBackend& cuda_backend();

}  // namespace mt
