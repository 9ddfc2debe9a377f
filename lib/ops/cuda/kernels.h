#pragma once
// The CUDA backend's kernels; contracts are those of ops/*.h, arguments are already checked. All work is queued on the
// stream, nothing waits.

#include "ops/kernels.h"

namespace mt::ops::cuda {

MT_EACH_KERNEL(MT_DECLARE_KERNEL)

}  // namespace mt::ops::cuda
