#include "comm/device_world.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/nccl.h"
#include "comm/staged.h"

namespace mt::comm {

namespace {

// What a rank tells the others.
struct Offer {
  std::int64_t key = 0, version = 0;  // of its device; of NCCL, 0: none
};

std::vector<Offer> offers(Communicator& host, Device device, bool has_nccl) {
  Offer mine;
  if (has_nccl) mine = {static_cast<std::int64_t>(nccl_device_key(device)), nccl_version()};
  std::vector<Offer> all(static_cast<std::size_t>(host.size()));
  Stream stream;
  host.all_gather(stream, View(&mine, DType::i64, {2}), View(all.data(), DType::i64, {2 * host.size()})).wait_host();
  return all;
}

// Why these ranks cannot use NCCL, "" when they can.
std::string why_not(const std::vector<Offer>& all, const std::string& mine) {
  if (std::any_of(all.begin(), all.end(), [](const Offer& o) { return o.version == 0; }))
    return mine.empty() ? "a rank has no NCCL" : mine;
  std::vector<std::int64_t> keys;
  for (const Offer& o : all) keys.push_back(o.key);
  std::sort(keys.begin(), keys.end());
  if (std::adjacent_find(keys.begin(), keys.end()) != keys.end()) return "ranks share a device, which NCCL does not allow";
  for (const Offer& o : all)
    if (o.version != all[0].version)
      throw Error(Code::comm, fmt::format("ranks have NCCL {} and {}", all[0].version, o.version), "nccl",
                  "install one version on all hosts, or use --distributed-backend mpi");
  return "";
}

}  // namespace

bool is_distributed_backend(const std::string& b) { return b.empty() || b == "nccl" || b == "mpi" || b == "gloo"; }

std::unique_ptr<Communicator> device_world(Communicator& host, Device device, const DeviceWorldOptions& options) {
  if (device.kind == DeviceKind::cpu) return nullptr;
  MT_CHECK(is_distributed_backend(options.backend), "backend {}", options.backend);
  if (host.size() == 1) return staged(host, device);
  const bool speaks = host.rank() == 0, through_host = options.backend == "mpi" || options.backend == "gloo";
  if (through_host) {
    if (speaks) log::info("messages between devices go through the host, as --distributed-backend {} says", options.backend);
    return staged(host, device);
  }
  const std::string mine = nccl_why_not();
  const auto all = offers(host, device, mine.empty());
  const std::string why = why_not(all, mine);
  if (why.empty()) {
    const auto v = all[0].version;
    if (speaks) log::info("messages between devices go over NCCL {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
    return nccl_world(host, device, {options.rank_order_sums});
  }
  if (options.backend == "nccl")
    throw Error(Code::config, "NCCL cannot be used: " + why, "--distributed-backend nccl",
                "start a rank a device, or use --distributed-backend mpi");
  if (speaks) log::info("messages between devices go through the host: {}", why);
  return staged(host, device);
}

}  // namespace mt::comm
