#include "ops/cuda/kernels.h"

namespace mt::ops {

namespace cuda {
namespace {
constexpr Kernels kKernels = {MT_EACH_KERNEL(MT_KERNEL_ROW)};
}  // namespace
}  // namespace cuda

const Kernels& cuda_kernels() { return cuda::kKernels; }

}  // namespace mt::ops
