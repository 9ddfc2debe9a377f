#pragma once
// Which optimizer state of a rank lies in host memory beside an accelerator, and what updating it there takes.
//
//   piece  a stretch of one shard: its gradients come to the host, its new weights go back
//   slot   host memory of one piece under way; several are, so that copies and updates overlap
// State moves by whole shards, in their order, until the share is reached: as Megatron's hybrid optimizer takes
// parameters. Pure functions. Code: layout/host_state.cc. Tests: tests/layout/host_state_test.cc.

#include "layout/shards.h"
#include "layout/state_spec.h"

namespace mt {

inline constexpr int kHostSlots = 4;
inline constexpr std::int64_t kHostPiece = std::int64_t{1} << 22;  // elements

// By shard; none when state.on_host is 0.
std::vector<bool> shards_on_host(const ShardPlan& plan, const StateSpec& state);

// Bytes of one slot: gradients that come, and weights that go, with f32 weights come too.
struct HostSlot {
  std::int64_t elements = 0;  // of the largest piece
  std::int64_t grad_bytes = 0, weight_bytes = 0;
  std::int64_t bytes() const { return grad_bytes + weight_bytes; }
};
//   largest  elements of a piece at most
HostSlot host_slot(const ShardPlan& plan, const StateSpec& state, std::int64_t largest = kHostPiece);

}  // namespace mt
