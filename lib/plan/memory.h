#pragma once
// Bytes a rank needs, before it runs: weights, gradients, optimizer, whole buckets beside shards, saved activations, scratch.
//
//   T   tokens of a micro-batch     Ts  T / tp with sequence parallelism, else T
// Pure arithmetic over the ParamSpec table, the saved-tensor table and the lane; the executor sizes its arenas by it, and a test
// holds it to the recorded peak. Code: plan/memory.cc. Tests: tests/plan/memory_test.cc.

#include <cstdint>
#include <vector>

#include "layout/state_spec.h"
#include "schedule/schedule.h"

namespace mt {

// Arenas of one micro-batch on one chunk (plan/lane_use.h says who shares them).
struct ChunkBytes {
  std::int64_t slot = 0;       // tokens, saved tensors, residual stream, messages that arrive
  std::int64_t kept = 0;       // of a split backward
  std::int64_t recompute = 0;  // of the largest group made again
  std::int64_t host = 0;       // saved tensors in host memory
};

// Bytes of every arena, in the order of plan/lane_use.h's places.
struct ArenaSizes {
  std::vector<std::int64_t> slots, kept, recompute;
  std::vector<std::int64_t> host;  // by slot; empty when nothing of one is there
};

struct MemoryPlan {
  std::int64_t weight_bytes = 0, grad_bytes = 0, optimizer_bytes = 0;
  std::int64_t bucket_bytes = 0;     // ZeRO 2, 3: whole weights and gradients of sub-layers at work (plan/open_buckets.h)
  std::int64_t slot_bytes = 0;       // of the largest chunk
  std::int64_t slots = 1;            // micro-batches in flight
  std::int64_t activation_bytes = 0;  // all slots, with what split backwards keep and recompute makes again
  std::int64_t scratch_bytes = 0;    // most of any sub-layer's pass
  std::int64_t forward_only_scratch_bytes = 0;  // of validation: in the same arena, not beside it
  std::int64_t other_bytes = 0;      // residual gradients, messages that leave, losses, tables
  std::vector<ChunkBytes> chunks;
  ArenaSizes arenas;  // with a lane
  std::int64_t fp8_weight_bytes = 0;  // copies kept from micro-batch to micro-batch (nn/fp8_product.h)
  std::int64_t host_bytes = 0;  // in host memory beside an accelerator; not in the total
  std::int64_t total() const {
    return weight_bytes + fp8_weight_bytes + grad_bytes + bucket_bytes + optimizer_bytes + activation_bytes + scratch_bytes + other_bytes;
  }
};

// Of a training step. A run that validates has scratch for it: then scratch_bytes is at least that of a forward-only pass,
// which the caller, who knows, sees to.
//   needs  a valid layout; the lane of this pipeline rank, with its messages
//   host_layers  layers of each chunk whose saved tensors go to host memory (layout/host_activations.h)
MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, const StateSpec& state, const Lane& lane, int host_layers = 0);
// The same for whole backwards with so many micro-batches in flight, without a lane at hand.
MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, const StateSpec& state, int max_in_flight);

}  // namespace mt
