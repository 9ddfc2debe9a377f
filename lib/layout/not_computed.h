#pragma once
// What of a model no sub-layer computes yet: models that have it are stored, cut, compared and converted, not run.
//
// Code: layout/not_computed.cc. Tests: tests/layout/not_computed_test.cc.

#include <string>

#include "layout/model_spec.h"

namespace mt {

// The features by name, with commas between them; empty when the model can be run. Experts are not among them: their
// number is a limit of validate().
std::string not_computed(const ModelSpec& model);

}  // namespace mt
