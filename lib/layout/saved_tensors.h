#pragma once
// What a sub-layer keeps from forward for its backward: the table nn allocates from and plan adds up.
//
//   T   tokens of a micro-batch      Ts  T / tp with sequence parallelism, else T     C hidden
// `until` says when a member is dead: after backward_input, or kept to backward_weight. A member made `again`
// (layout/recompute.h) is dead after the forward of its row too, and alive from the recompute on.
// Code: layout/saved_tensors.cc. Tests: tests/layout/saved_tensors_test.cc, and nn's recorded use.

#include <string>
#include <vector>

#include "base/dtype.h"
#include "layout/model_spec.h"
#include "layout/box.h"
#include "layout/parallel_spec.h"

namespace mt {

enum class Until : std::uint8_t { backward_input, backward_weight };

struct SavedTensor {
  std::string name;
  Dims shape;
  DType dtype;
  Until until;
  bool again = false;
};

// Members for one unit (0 embedding, 1+i row i, last head) and one micro-batch, in the order nn enumerates them. The
// unit's input x is one of them; its output is the next unit's x.
std::vector<SavedTensor> saved_tensors(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                                       DType compute, int unit);

// What a unit allocates of them, in bytes, each rounded up to 64: all but x, which is the unit's before it.
std::int64_t saved_bytes(const std::vector<SavedTensor>& tensors);

}  // namespace mt
