#include "ops/cpu/column_sums.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

float shift_of(bool one_plus) { return one_plus ? 1.0f : 0.0f; }

// Null when absent.
float* place(const View& v, Count i) { return v ? static_cast<float*>(v.data) + i : nullptr; }

}  // namespace

void rms_norm_forward(const Stream& stream, const RmsNormForwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
    const Scratch s(3 * n);
    const float* weight = read_vector(g.weight, s.at(0));
    for (Count t = lo; t < hi; ++t) {
      const float* x = read_row(g.x, t, s.at(n));
      float rstd = 0;
      write_row(g.out, t, s.at(2 * n),
                [&](float* out) { rstd = vector().rms_forward(x, weight, shift_of(g.one_plus), g.epsilon, out, n); });
      if (g.rstd) *place(g.rstd, t) = rstd;
    }
  });
}

void rms_norm_backward(const Stream& stream, const RmsNormBackwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  if (g.dweight) {
    // Before dx: dx may be dout.
    column_sums(
        stream, rows, n,
        [&](Count t, Count lo, Count hi, float* line, float* sum) {
          const float* dout = read(g.dout.dtype, element(g.dout, t * g.dout.strides[0] + lo), hi - lo, line);
          const float* x = read(g.x.dtype, element(g.x, t * g.x.strides[0] + lo), hi - lo, line + kColumnBlock);
          vector().rms_columns(dout, x, *place(g.rstd, t), sum, hi - lo);
        },
        g.dweight);
  }
  if (!g.dx) return;
  parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
    const Scratch s(5 * n);
    const float* weight = read_vector(g.weight, s.at(0));
    for (Count t = lo; t < hi; ++t) {
      const float *dout = read_row(g.dout, t, s.at(n)), *x = read_row(g.x, t, s.at(2 * n));
      const float* more = g.dresidual ? read_row(g.dresidual, t, s.at(3 * n)) : nullptr;
      write_row(g.dx, t, s.at(4 * n), [&](float* dx) {
        vector().rms_backward(dout, x, weight, shift_of(g.one_plus), *place(g.rstd, t), more, dx, n);
      });
    }
  });
}

void layer_norm_forward(const Stream& stream, const LayerNormForwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
    const Scratch s(4 * n);
    const float *weight = read_vector(g.weight, s.at(0)), *bias = read_vector(g.bias, s.at(n));
    for (Count t = lo; t < hi; ++t) {
      const float* x = read_row(g.x, t, s.at(2 * n));
      float mean_rstd[2] = {0, 0};
      write_row(g.out, t, s.at(3 * n), [&](float* out) {
        vector().layer_forward(x, weight, bias, shift_of(g.one_plus), g.epsilon, out, n, mean_rstd);
      });
      if (g.mean) *place(g.mean, t) = mean_rstd[0];
      if (g.rstd) *place(g.rstd, t) = mean_rstd[1];
    }
  });
}

void layer_norm_backward(const Stream& stream, const LayerNormBackwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  if (g.dweight) {
    column_sums<2>(
        stream, rows, n,
        [&](Count t, Count lo, Count hi, float* line, float* sum) {
          const float* dout = read(g.dout.dtype, element(g.dout, t * g.dout.strides[0] + lo), hi - lo, line);
          const float* x = read(g.x.dtype, element(g.x, t * g.x.strides[0] + lo), hi - lo, line + kColumnBlock);
          const float mean_rstd[2] = {*place(g.mean, t), *place(g.rstd, t)};
          vector().layer_columns(dout, x, mean_rstd, sum, sum + kColumnBlock, hi - lo);
        },
        g.dweight, g.dbias);
  }
  if (!g.dx) return;
  parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
    const Scratch s(5 * n);
    const float* weight = read_vector(g.weight, s.at(0));
    for (Count t = lo; t < hi; ++t) {
      const float *dout = read_row(g.dout, t, s.at(n)), *x = read_row(g.x, t, s.at(2 * n));
      const float* more = g.dresidual ? read_row(g.dresidual, t, s.at(3 * n)) : nullptr;
      const float mean_rstd[2] = {*place(g.mean, t), *place(g.rstd, t)};
      write_row(g.dx, t, s.at(4 * n), [&](float* dx) {
        vector().layer_backward(dout, x, weight, shift_of(g.one_plus), mean_rstd, more, dx, n);
      });
    }
  });
}

}  // namespace mt::ops::cpu
