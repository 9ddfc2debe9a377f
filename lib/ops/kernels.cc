#include "ops/kernels.h"

#include "ops/cpu/kernels.h"

namespace mt::ops {

const Kernels& kernels(DeviceKind kind) {
  MT_CHECK(kind == DeviceKind::cpu, "no kernels for device kind {}", static_cast<int>(kind));
  return cpu::kKernels;
}

}  // namespace mt::ops
