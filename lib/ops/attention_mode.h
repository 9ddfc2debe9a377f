#pragma once
// Whose kernels attention runs on, and what they may count on: the part of ops/attention.h that options are made of.
//
// Code: ops/attention_choice.cc. Tests: tests/ops/attention_choice_test.cc.

#include <cstdint>
#include <string>

#include "device/device.h"

namespace mt::ops {

// cuDNN's are taken where cudnn_takes says so (ops/attention.h), on CUDA; everywhere else they are ours.
enum class AttentionKernels : std::uint8_t { fastest, ours, cudnn };

struct AttentionMode {
  AttentionKernels kernels = AttentionKernels::fastest;
  bool repeats = false;  // backward gives the same bits every time, as ours always does; cuDNN's is slower then
};

// What the host knows of the lengths of sequences; kernels of ours need none of it.
struct AttentionLengths {
  std::int64_t longest_q = 0, longest_k = 0;  // no sequence has more; 0: not known
  bool equal = false;                         // every sequence has as many
};

// Which kernels it is on this device where shapes fit, as words for people: "cuDNN 9.19.0", "our own (this build has no
// cuDNN)".   cost  the first time on CUDA, opening the library
std::string attention_kernels(Device device, AttentionKernels wanted);

}  // namespace mt::ops
