#pragma once
// Sums, scaling, filling, dtype conversion and strided copies of whole tensors.
//
//   T  rows   C  columns
// Code: ops/arithmetic.cc, ops/cpu/arithmetic.cc. Tests: tests/ops/arithmetic_test.cc.

#include "device/stream.h"
#include "tensor/view.h"

namespace mt::ops {

struct AddArgs {
  View a, b;  // equal shapes, contiguous; any float
  View out;   // may be a or b
};
// out = a + b in f32, rounded once.   cost  3·n elements moved
void add(Stream& stream, const AddArgs& args);

struct ScaleArgs {
  View x, out;  // equal shapes, contiguous; any float; may be the same
  float factor = 1;
  const float* on_device = nullptr;  // a further factor read from device memory when the work runs
};
// out = x · factor · *on_device.   cost  2·n elements moved
void scale(Stream& stream, const ScaleArgs& args);

// Every element of `out` (contiguous; any float or integer dtype) becomes `value`.   cost  n elements moved
void fill(Stream& stream, View out, double value);

struct CastArgs {
  View x, out;  // equal shapes, any strides; floats of any dtype (rounded to nearest even), or equal integer dtypes
};
// out = x. Equal dtypes make it a strided copy.   needs  no overlap (or the same contiguous bytes).   cost  2·n moved
void cast(Stream& stream, const CastArgs& args);

struct ColumnSumArgs {
  View x;    // [T, C], last stride 1; any float
  View out;  // [C]; any float
};
// out += Σ_t x[t], rows in fixed blocks, in f32; the gradient of a bias.   cost  T·C elements moved
void column_sum(Stream& stream, const ColumnSumArgs& args);

}  // namespace mt::ops
