#include "ops/cpu/kernels.h"

#include "ops/cpu/vector/vector.h"

namespace mt::ops::cpu {

const Kernels kKernels = {MT_EACH_KERNEL(MT_KERNEL_ROW)};

const Vector& vector() {
#if defined(__x86_64__)
  static const Vector& table = cpu_isa() >= CpuIsa::avx512 ? avx512::kVector
                               : cpu_isa() == CpuIsa::avx2 ? avx2::kVector
                                                           : generic::kVector;
  return table;
#else
  return generic::kVector;
#endif
}

}  // namespace mt::ops::cpu
