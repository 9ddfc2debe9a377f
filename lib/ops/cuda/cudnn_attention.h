#pragma once
// Attention by cuDNN: plans kept by shape, and the lengths and first elements of packed sequences made on the stream.
//
// Code: ops/cuda/cudnn_attention.cu. Tests: tests/ops/cudnn_attention_test.cc, on the emulated device with a stand-in of
// the library (tests/cuda_emulation/cudnn_plan.cc); tests/ops/cuda_equals_cpu_test.cc on a device.

#include "ops/attention.h"

namespace mt::ops::cuda {

// Queued on the stream; nothing waits.   gives  false, and nothing is done, where cudnn_takes or the library says no
//   cost  the first time for a shape, up to seconds: the library makes a plan
bool cudnn_attention_forward(const Stream& stream, const AttentionForwardArgs& args);
bool cudnn_attention_backward(const Stream& stream, const AttentionBackwardArgs& args);

}  // namespace mt::ops::cuda
