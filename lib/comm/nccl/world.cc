#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/hash.h"
#include "comm/nccl/communicator.h"
#include "device/cuda/runtime.h"

namespace mt::comm {

std::string nccl_why_not() { return nccl::library_fault(); }

int nccl_version() {
  int version = 0;
  nccl::library().ncclGetVersion(&version);
  return version;
}

std::uint64_t nccl_device_key(Device device) {
  char host[256] = "", bus[64] = "";
  ::gethostname(host, sizeof host - 1);
  cuda::check(cudaDeviceGetPCIBusId(bus, sizeof bus, device.index), "cudaDeviceGetPCIBusId", device.index);
  // Two hosts may have one name, but not one start.
  std::string text = fmt::format("{} {} ", host, bus);
  if (std::FILE* f = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
    char line[64] = "";
    if (std::fgets(line, sizeof line, f)) text += line;
    std::fclose(f);
  }
  return xxh3(text.data(), text.size());
}

std::unique_ptr<Communicator> nccl_world(Communicator& host, Device device, const NcclOptions& options) {
  using namespace nccl;
  MT_CHECK(host.size() > 1, "NCCL over {} rank", host.size());
  Stream stream;
  // Ranks of one process find each other by it.
  std::uint64_t key = reinterpret_cast<std::uintptr_t>(&host) ^ static_cast<std::uint64_t>(::getpid());
  host.broadcast(stream, View(&key, DType::i64, {1}), 0).wait_host();
  const int world_rank = host.world_ranks()[static_cast<std::size_t>(host.rank())];
  const auto board = Board::of(fmt::format("{:x}", key));
  auto shared = std::shared_ptr<Shared>(
      new Shared{options, Domain(device, world_rank, host.options(), board)});
  return std::make_unique<NcclCommunicator>(std::move(shared), host, nullptr);
}

}  // namespace mt::comm
