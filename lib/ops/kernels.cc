#include "ops/kernels.h"

#include "ops/cpu/kernels.h"

namespace mt::ops {

const Kernels& kernels(DeviceKind kind) { return kind == DeviceKind::cpu ? cpu::kKernels : cuda_kernels(); }

void not_there(Device device) {
  throw Error(Code::device, "this operation has no kernel there", device_text(device), "use --device cpu");
}

}  // namespace mt::ops
