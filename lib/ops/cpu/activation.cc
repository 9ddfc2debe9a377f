#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

std::size_t slot(Activation a) { return static_cast<std::size_t>(a); }

const float* second_half(const float* bias, Count n) { return bias == nullptr ? nullptr : bias + n; }

}  // namespace

void activation_forward(const Stream& stream, const ActivationForwardArgs& g) {
  const Count rows = g.out.dim(0), n = g.out.dim(1), width = g.x.dim(1);
  parallel_ranges(stream, rows, rows_per_block(width), [&](Count lo, Count hi) {
    const Scratch s(2 * width + n);
    const float* bias = read_vector(g.bias, s.at(0));
    for (Count t = lo; t < hi; ++t) {
      const float* x = read_row(g.x, t, s.at(width));
      write_row(g.out, t, s.at(2 * width), [&](float* out) {
        if (g.gated) vector().gated[slot(g.kind)](x, x + n, bias, second_half(bias, n), out, n);
        else vector().activation[slot(g.kind)](x, bias, out, n);
      });
    }
  });
}

void activation_backward(const Stream& stream, const ActivationBackwardArgs& g) {
  const Count rows = g.dout.dim(0), n = g.dout.dim(1), width = g.x.dim(1);
  parallel_ranges(stream, rows, rows_per_block(width), [&](Count lo, Count hi) {
    const Scratch s(3 * width + n);
    const float* bias = read_vector(g.bias, s.at(0));
    for (Count t = lo; t < hi; ++t) {
      const float *x = read_row(g.x, t, s.at(width)), *dout = read_row(g.dout, t, s.at(3 * width));
      write_row(g.dx, t, s.at(2 * width), [&](float* dx) {
        if (g.gated) vector().gated_backward[slot(g.kind)](x, x + n, bias, second_half(bias, n), dout, dx, dx + n, n);
        else vector().activation_backward[slot(g.kind)](x, bias, dout, dx, n);
      });
    }
  });
  // Of dx as rounded: what the weight gradient sees too.
  if (g.dbias) column_sum(stream, {g.dx, g.dbias});
}

}  // namespace mt::ops::cpu
