#pragma once
// Bytes a rank needs, before it runs: weights, gradients, optimizer, saved activations, scratch.
//
//   T   tokens of a micro-batch     Ts  T / tp with sequence parallelism, else T
// Pure arithmetic over the ParamSpec table and the saved-tensor table; the executor sizes its arenas by it, and a test
// holds it to the recorded peak. Code: plan/memory.cc. Tests: tests/plan/memory_test.cc.

#include <cstdint>

#include "base/dtype.h"
#include "layout/param_spec.h"

namespace mt {

struct MemoryPlan {
  std::int64_t weight_bytes = 0, grad_bytes = 0, optimizer_bytes = 0;
  std::int64_t slot_bytes = 0;     // one micro-batch in flight: tokens, saved tensors, residual stream
  std::int64_t slots = 1;          // micro-batches in flight
  std::int64_t scratch_bytes = 0;  // most of any sub-layer's pass
  std::int64_t other_bytes = 0;    // residual gradients, losses, tables
  std::int64_t total() const {
    return weight_bytes + grad_bytes + optimizer_bytes + slots * slot_bytes + scratch_bytes + other_bytes;
  }
};

// needs  a valid layout;  max_in_flight of this pipeline rank's lane
MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, DType compute, int max_in_flight);

}  // namespace mt
