#pragma once
// Which rows' saved tensors lie in host memory between their forward and their backward: those of the first layers of
// every stage, as Megatron offloads the first layers of a model.
//
// A row takes its input along, unless that is the stage's own. Pure functions.
// Code: layout/host_activations.cc. Tests: tests/layout/host_activations_test.cc.

#include "layout/model_spec.h"
#include "layout/param_spec.h"

namespace mt {

// Device memory that such rows pass through, each a row's: one is computed on while others leave or come.
inline constexpr int kRowBuffers = 3;

// needs  `row` is one of the chunk's, of the decoder   gives  false for every row when `layers` is 0
bool saved_on_host(const ModelSpec& model, const StageContent& chunk, int row, int layers);

}  // namespace mt
