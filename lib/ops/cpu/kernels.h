#pragma once
// The CPU backend's kernels; contracts are those of ops/*.h, arguments are already checked.

#include "ops/kernels.h"

namespace mt::ops::cpu {

MT_EACH_KERNEL(MT_DECLARE_KERNEL)

extern const Kernels kKernels;

}  // namespace mt::ops::cpu
