#pragma once
// Which boxes of a checkpoint each rank of another layout owns, from the ParamSpec table.
//
// Code: mt-reshard/boxes_of_layout.cc. Tests: tests/cli/mt_reshard_test.cc.

#include <vector>

#include "ckpt/manifest.h"
#include "layout/param_spec.h"

namespace mt {

// Boxes by rank of `parallel`: those that the ranks of a run would write themselves (ckpt/owned_boxes.h). Every kind of a tensor (weight, master, moments) goes with its weight; tensors that
// are no parameter of the model, and scales of moments, go to rank 0 whole.
//   fails  Error{config} when a parameter of the model is not stored or has another shape
std::vector<std::vector<TensorBox>> boxes_of_layout(const Manifest& manifest, const ModelSpec& model,
                                                    const ParallelSpec& parallel);

}  // namespace mt
