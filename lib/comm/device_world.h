#pragma once
// The communicator for a rank that computes on an accelerator: NCCL where each rank has a device of its own, else messages
// staged through the host.
//
// Code: comm/device_world.cc. Tests: tests/comm/nccl_test.cc, tests/cli/cuda_emulated.sh.

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace mt::comm {

struct DeviceWorldOptions {
  // "nccl"; "mpi" or "gloo": through the host; "": NCCL where it can be used, else through the host.
  std::string backend;
  bool rank_order_sums = false;  // of NCCL: comm/nccl.h
};

// Whether `backend` is a name from above.
bool is_distributed_backend(const std::string& backend);

// Collective over `host`. Rank 0 says in one line what was chosen and why, where there is more than one rank.
//   gives  null on a CPU, where `host` serves as it is
//   fails  Error{config} for "nccl" where it is not built, does not open, or ranks share a device; Error{comm}: ranks have
//          different versions of NCCL
std::unique_ptr<Communicator> device_world(Communicator& host, Device device, const DeviceWorldOptions& options = {});

}  // namespace mt::comm
