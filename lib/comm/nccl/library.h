#pragma once
// NCCL's functions, from the library that is opened when first asked for.
//
// Code: comm/nccl/library.cc. Included only inside comm/nccl/.

#include <string>

#include <nccl.h>

#define MT_NCCL_FUNCTIONS(X)                                                                                        \
  X(ncclGetVersion)                                                                                                 \
  X(ncclGetUniqueId) X(ncclCommInitRankConfig) X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort)              \
  X(ncclCommGetAsyncError) X(ncclGetErrorString) X(ncclGetLastError) X(ncclGroupStart) X(ncclGroupEnd)              \
  X(ncclAllReduce) X(ncclReduce) X(ncclReduceScatter) X(ncclAllGather) X(ncclBroadcast) X(ncclSend) X(ncclRecv)

namespace mt::comm::nccl {

struct Library {
#define MT_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  MT_NCCL_FUNCTIONS(MT_NCCL_MEMBER)
#undef MT_NCCL_MEMBER
};

// "" or why there is none.
const std::string& library_fault();
//   fails  Error{comm} with library_fault()
const Library& library();

}  // namespace mt::comm::nccl
