#pragma once
// A stream that goes first: what it holds is not queued behind the long kernels of other streams.
//
// Code: device/stream.cc. Tests: tests/cuda_emulation/self_test/stream_test.cc.

#include "device/stream.h"

namespace mt {

// For messages: their kernels are short, and peers wait for them. On a CPU a stream as any other.
//   fails  as a Stream's constructor
Stream message_stream(Device device);

}  // namespace mt
