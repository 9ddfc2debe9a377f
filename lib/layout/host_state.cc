#include "layout/host_state.h"

#include <algorithm>

namespace mt {

std::vector<bool> shards_on_host(const ShardPlan& plan, const StateSpec& state) {
  std::int64_t all = 0, taken = 0;
  for (const auto& s : plan.shards) all += s.size();
  const double wanted = state.on_host * static_cast<double>(all);
  std::vector<bool> on_host;
  for (const auto& s : plan.shards) {
    on_host.push_back(static_cast<double>(taken) < wanted);
    if (on_host.back()) taken += s.size();
  }
  return on_host;
}

HostSlot host_slot(const ShardPlan& plan, const StateSpec& state, std::int64_t largest) {
  const auto on_host = shards_on_host(plan, state);
  HostSlot slot;
  for (std::size_t i = 0; i < on_host.size(); ++i)
    if (on_host[i]) slot.elements = std::max(slot.elements, std::min(plan.shards[i].size(), largest));
  const auto line = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  slot.grad_bytes = line(bytes_of(state.grads, slot.elements));
  slot.weight_bytes = line(bytes_of(state.compute, slot.elements));
  return slot;
}

}  // namespace mt
