// What stands for CUDA where it is not built.
#include "base/error.h"
#include "device/backend.h"

namespace mt {

const DeviceBackend& cuda_backend() { throw Error(Code::device, "this build has no CUDA", "cuda", "use --device cpu"); }

}  // namespace mt
