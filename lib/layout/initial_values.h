#pragma once
// Initial values of any box of a logical tensor, on the host: the same bits whatever the layout.
//
// Element e (row-major in the true global shape) of tensor `name` is drawn from Philox(key = seed, init, hash of the
// name) at counter e; normal values come from the inverse CDF by IEEE-exact operations (base/philox.h).
// Code: layout/initial_values.cc. Tests: tests/layout/initial_values_test.cc.

#include <cstdint>
#include <string>

#include "layout/param_spec.h"

namespace mt {

// Fill `out` (f32, row-major `box`) with the initial values of `box` of the piece's logical tensor.
//   needs  box inside piece.shape      cost  about 25 ns an element, one thread; call on sub-boxes to use more
void initial_values(const Piece& piece, std::uint64_t seed, const Box& box, float* out);

}  // namespace mt
