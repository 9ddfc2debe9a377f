#include "ops/cuda/column_sums.h"
#include "ops/cuda/kernels.h"
#include "ops/scalar.h"

namespace mt::ops::cuda {

namespace {

// Dropout of the rows of a matrix, as ops/dropout.h says.
struct Mask {
  PhiloxKey key{};
  const std::int64_t* ordinals = nullptr;
  const std::int32_t* positions = nullptr;
  Count first = 0;
  std::uint32_t threshold = 0;
  float keep_scale = 1;

  explicit Mask(const Dropout& d) {
    if (d.p == 0) return;
    key = d.key;
    ordinals = static_cast<const std::int64_t*>(d.ordinals.data);
    positions = static_cast<const std::int32_t*>(d.positions.data);
    first = d.first_feature;
    threshold = dropout_threshold(d.p);
    keep_scale = 1.0f / (1.0f - d.p);
  }
  // A dropped element is zero even when x is not finite.
  __device__ void apply(Count row, Count at, float (&x)[kGroup]) const {
    const auto ordinal = static_cast<std::uint64_t>(ordinals[row]);
    const auto position = static_cast<std::uint32_t>(positions[row]);
    const auto low = static_cast<std::uint32_t>(ordinal), high = static_cast<std::uint32_t>(ordinal >> 32);
    std::uint32_t w0 = 0, w1 = 0, w2 = 0, w3 = 0;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const Count feature = first + at + i;
      const unsigned word = static_cast<unsigned>(feature) & 3u;
      if (i == 0 || word == 0) {
        const auto words = philox(key, static_cast<std::uint32_t>(feature / 4), position, low, high);
        w0 = words[0], w1 = words[1], w2 = words[2], w3 = words[3];
      }
      const std::uint32_t drawn = word == 0 ? w0 : word == 1 ? w1 : word == 2 ? w2 : w3;
      x[i] = dropout_keeps(drawn, threshold) ? x[i] * keep_scale : 0.0f;
    }
  }
};

template <bool kDrops>
struct BiasDropoutAdd {
  Elements x, bias, residual, out;
  Mask mask;
  __device__ void operator()(Count row, Count at, int count) const {
    float v[kGroup], other[kGroup];
    load(x, row, at, count, v);
    if (bias.data != nullptr) {
      load(bias, 0, at, count, other);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) v[i] += other[i];
    }
    if constexpr (kDrops) mask.apply(row, at, v);
    if (residual.data != nullptr) {
      load(residual, row, at, count, other);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) v[i] = other[i] + v[i];
    }
    store(out, row, at, count, v);
  }
};

void run(const Stream& stream, const View& x, const View& bias, const View& residual, const View& out,
         const Dropout& dropout) {
  const Count rows = x.dim(0), n = x.dim(1);
  const Elements b = bias ? flat(bias) : Elements{}, r = elements(residual);
  if (dropout.p > 0) each_group(stream, rows, n, BiasDropoutAdd<true>{elements(x), b, r, elements(out), Mask(dropout)});
  else each_group(stream, rows, n, BiasDropoutAdd<false>{elements(x), b, r, elements(out), Mask(dropout)});
}

}  // namespace

void bias_dropout_add_forward(const Stream& stream, const BiasDropoutAddForwardArgs& g) {
  run(stream, g.x, g.bias, g.residual, g.out, g.dropout);
}

void bias_dropout_add_backward(const Stream& stream, const BiasDropoutAddBackwardArgs& g) {
  const bool same = g.dx && g.dx.data == g.dout.data && g.dx.dtype == g.dout.dtype;
  if (g.dx && !(g.dropout.p == 0 && same)) run(stream, g.dout, {}, {}, g.dx, g.dropout);
  if (g.dbias) column_sum(stream, {g.dx ? g.dx : g.dout, g.dbias});
}

}  // namespace mt::ops::cuda
