#pragma once
// Newton-Schulz: the nearest semi-orthogonal matrix, approximately, by matrix products alone.
//
//   X = G / max(‖G‖, 1e-7);  each step, with r ≤ c the sides of X:  A = X·Xᵀ (r×r),  X = a·X + (b·A + c·A²)·X
// (and from the right where X has more rows than columns, which is the same). All in f32. The coefficients do not
// converge: they bring singular values near 1 in few steps. Sources: Jordan et al., "Muon"; the quintic ones are
// L. Cesista's and Y. Jiacheng's. Code: optim/newton_schulz.cc. Tests: tests/optim/newton_schulz_test.cc.

#include <string>

#include "device/stream.h"
#include "layout/muon_matrices.h"
#include "tensor/view.h"

namespace mt {

struct NewtonSchulz {
  enum class Coefficients : std::uint8_t { quintic, simple } coefficients = Coefficients::quintic;
  int steps = 5;
};

// Steps the coefficients are made for: a multiple of 5 for quintic, any for simple.
bool fits(const NewtonSchulz& iteration);

// x becomes factor · NS(x).
//   needs  x f32 [rows, cols], contiguous; scratch f32 of newton_schulz_scratch(rows, cols) elements
//   cost   flop = 2·steps·r²·(2c + r)
void newton_schulz(Stream& stream, const View& x, const View& scratch, const NewtonSchulz& iteration, float factor);

}  // namespace mt
