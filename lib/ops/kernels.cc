#include "ops/kernels.h"

#include "ops/cpu/kernels.h"

namespace mt::ops {

const Kernels& kernels(DeviceKind kind) { return kind == DeviceKind::cpu ? cpu::kKernels : cuda_kernels(); }

}  // namespace mt::ops
