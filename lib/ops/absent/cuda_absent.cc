// What stands for CUDA where it is not built.
#include "base/error.h"
#include "ops/kernels.h"

namespace mt::ops {

const Kernels& cuda_kernels() { throw Error(Code::device, "this build has no CUDA", "cuda", "use --device cpu"); }

}  // namespace mt::ops
