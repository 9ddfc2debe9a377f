#pragma once
// The host's side of memory that a stream's device computes on: the memory itself on a CPU, a pinned copy elsewhere.
//
//   HostSide side(stream, view.data, view.bytes());
//   side.fetch();   side.as<float>()[0] += 1;   side.store();
// For what the host has to look at between steps; work of every step belongs in kernels.
// Code: device/host_side.cc. Tests: tests/device/host_side_test.cc.

#include "device/buffer.h"
#include "device/stream.h"

namespace mt {

class HostSide {
 public:
  // needs  stream and memory outlive it   fails  Error{device} when memory is short
  HostSide(Stream& stream, void* data, std::size_t bytes);
  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;

  // Waits until what was launched is done; then the host sees what the device wrote.
  void fetch();
  // The device sees what the host wrote, in the order of the stream. needs  fetch(), or every byte written, before
  void store();

  std::byte* data() const { return host_; }
  std::size_t size() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(host_);
  }

 private:
  Stream& stream_;
  std::byte *there_, *host_;
  std::size_t bytes_;
  Buffer pinned_;
};

// Bytes of ordinary host memory, as they are at the call, to the device in the order of the stream; `src` may go at once.
// For a few kilobytes.   cost  bytes moved twice
void upload_bytes(Stream& stream, void* dst, const void* src, std::size_t bytes);

}  // namespace mt
