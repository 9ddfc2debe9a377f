#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/scalar.h"

namespace mt::ops::cpu {

namespace {

DropoutRow row_of_token(const Dropout& d, Count token) {
  const auto ordinal = static_cast<std::uint64_t>(static_cast<const std::int64_t*>(d.ordinals.data)[token]);
  const auto position = static_cast<const std::int32_t*>(d.positions.data)[token];
  return {d.key,
          static_cast<std::uint32_t>(position),
          static_cast<std::uint32_t>(ordinal),
          static_cast<std::uint32_t>(ordinal >> 32),
          d.first_feature,
          dropout_threshold(d.p),
          1.0f / (1.0f - d.p)};
}

}  // namespace

void bias_dropout_add_forward(const Stream& stream, const BiasDropoutAddForwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
    const Scratch s(4 * n);
    const float* bias = read_vector(g.bias, s.at(0));
    for (Count t = lo; t < hi; ++t) {
      const float* x = read_row(g.x, t, s.at(n));
      const float* residual = g.residual ? read_row(g.residual, t, s.at(2 * n)) : nullptr;
      write_row(g.out, t, s.at(3 * n), [&](float* out) {
        if (g.dropout.p > 0) vector().bias_dropout_add(x, bias, residual, row_of_token(g.dropout, t), out, n);
        else vector().bias_add(x, bias, residual, out, n);
      });
    }
  });
}

void bias_dropout_add_backward(const Stream& stream, const BiasDropoutAddBackwardArgs& g) {
  const Count rows = g.dout.dim(0), n = g.dout.dim(1);
  const bool same = g.dx && g.dx.data == g.dout.data && g.dx.dtype == g.dout.dtype;
  if (g.dx && !(g.dropout.p == 0 && same))
    parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
      const Scratch s(2 * n);
      for (Count t = lo; t < hi; ++t) {
        const float* dout = read_row(g.dout, t, s.at(0));
        write_row(g.dx, t, s.at(n), [&](float* dx) {
          if (g.dropout.p > 0) vector().bias_dropout_add(dout, nullptr, nullptr, row_of_token(g.dropout, t), dx, n);
          else vector().bias_add(dout, nullptr, nullptr, dx, n);
        });
      }
    });
  if (g.dbias) column_sum(stream, {g.dx ? g.dx : g.dout, g.dbias});
}

}  // namespace mt::ops::cpu
