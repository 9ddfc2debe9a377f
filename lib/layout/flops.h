#pragma once
// Floating-point operations of a training step, in three readings, by Megatron's formula.
//
//   causal      attention core 6·q·B·s² a layer (only the lower triangle is needed)
//   non_causal  12·q·B·s²
//   recompute   causal plus the products that recompute really repeats: the last row of a group needs no output
// multiply-add is 2; forward + backward is 3 times forward; logits count the padded vocabulary.
// Source: Megatron-LM training.py num_floating_point_operations. Code: layout/flops.cc. Tests: tests/layout/flops_test.cc.

#include "layout/model_spec.h"
#include "layout/parallel_spec.h"

namespace mt {

struct StepFlops {
  double causal = 0, non_causal = 0, with_recompute = 0;
};
StepFlops step_flops(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch);

}  // namespace mt
