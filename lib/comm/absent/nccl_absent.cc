#include "base/error.h"
#include "comm/nccl.h"

namespace mt::comm {

std::string nccl_why_not() { return "this build has no NCCL"; }
int nccl_version() { return 0; }
std::uint64_t nccl_device_key(Device) { return 0; }
std::unique_ptr<Communicator> nccl_world(Communicator&, Device, const NcclOptions&) {
  throw Error(Code::comm, "this build has no NCCL", "nccl", "build where nvcc and nccl.h are found, or use mpi");
}

}  // namespace mt::comm
