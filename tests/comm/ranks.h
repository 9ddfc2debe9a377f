#pragma once
// Runs a body on every rank of a backend: in process (solo, threads), or, when the binary was started by mpiexec, on
// the MPI world it finds itself in. The same tests then serve every backend.

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/nccl.h"
#include "comm/staged.h"
#include "comm/through_device.h"
#include "comm/world.h"
#include "device/backend.h"
#include "device/test_device.h"

namespace mt::test {

struct Backend {
  std::string name;  // "solo", "threads", "mpi", "staged" and "nccl" (over threads)
  int ranks = 1;
};

// The MPI world lives as long as the process; main() makes it. Null in process.
Communicator*& mpi_world_of_this_process();

inline CommOptions comm_options() {
  CommOptions o;
  o.timeout_s = 60;
  // "MT_TEST_CHUNK=24" cuts every message.
  if (const char* text = std::getenv("MT_TEST_CHUNK")) o.max_chunk_bytes = std::atoll(text);
  if (const char* text = std::getenv("MT_TEST_TIMEOUT_S")) o.timeout_s = std::atof(text);
  return o;
}

inline std::vector<Backend> backends() {
  if (comm::started_by_mpi()) {
    const char* size = std::getenv("PMI_SIZE");
    if (!size) size = std::getenv("OMPI_COMM_WORLD_SIZE");
    return {{"mpi", size ? std::atoi(size) : 1}};
  }
  return {{"solo", 1}, {"threads", 1}, {"threads", 2}, {"threads", 3}, {"threads", 4}, {"threads", 8},
          {"staged", 1}, {"staged", 3}, {"nccl", 2},  {"nccl", 3},  {"nccl", 4}};
}

// Whether `n` ranks have a device each that NCCL reaches; a reason otherwise.
inline std::string why_no_nccl(int n) {
  if (on_cpu()) return "NCCL needs devices";
  if (const auto why = comm::nccl_why_not(); !why.empty()) return why;
  const int devices = cuda_backend().count();
  return devices < n ? std::to_string(devices) + " devices for " + std::to_string(n) + " ranks" : "";
}

using Body = std::function<void(Communicator&)>;

inline void on_ranks(const Backend& backend, const Body& body, const CommOptions& options = comm_options()) {
  if (backend.name == "solo") {
    const auto world = comm::solo_world(options);
    body(*world);
  } else if (backend.name == "threads") {
    comm::run_local_ranks(backend.ranks, options, [&](std::unique_ptr<Communicator> world) { body(*world); });
  } else if (backend.name == "staged") {
    comm::run_local_ranks(backend.ranks, options, [&](std::unique_ptr<Communicator> world) {
      body(*comm::staged(*world, test_device()));
    });
  } else if (backend.name == "nccl") {
    if (const auto why = why_no_nccl(backend.ranks); !why.empty()) GTEST_SKIP() << why;
    comm::run_local_ranks(backend.ranks, options, [&](std::unique_ptr<Communicator> world) {
      const Device device = device_of_rank(device_name(), world->rank());
      const auto nccl = comm::nccl_world(*world, device, {.rank_order_sums = true});
      ThroughDevice through(*nccl, nullptr, device);
      body(through);
    });
  } else {
    body(*mpi_world_of_this_process());
  }
}

class OnRanks : public testing::TestWithParam<Backend> {
 protected:
  void run(const Body& body) { on_ranks(GetParam(), body); }
  int ranks() const { return GetParam().ranks; }
};

inline std::string backend_text(const testing::TestParamInfo<Backend>& info) {
  return info.param.name + std::to_string(info.param.ranks);
}

}  // namespace mt::test
