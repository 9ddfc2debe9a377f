#include "ops/cuda/column_sums.h"
#include "ops/cuda/kernels.h"
#include "ops/scalar.h"

namespace mt::ops::cuda {

namespace {

// One half of the input (gate or up) with its bias added.
struct Half {
  Elements x, bias;
  __device__ void read(Count row, Count at, int count, float (&v)[kGroup]) const {
    load(x, row, at, count, v);
    if (bias.data == nullptr) return;
    float b[kGroup];
    load(bias, 0, at, count, b);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) v[i] += b[i];
  }
};

struct Halves {
  Half gate, up;
  Halves(const View& x, const View& bias, Count n, bool gated) {
    gate = {elements(x.slice(1, 0, n)), bias ? flat(bias.slice(0, 0, n)) : Elements{}};
    if (gated) up = {elements(x.slice(1, n, 2 * n)), bias ? flat(bias.slice(0, n, 2 * n)) : Elements{}};
  }
};

template <class Act, bool kGated>
struct Forward {
  Halves in;
  Elements out;
  __device__ void operator()(Count row, Count at, int count) const {
    float x[kGroup];
    in.gate.read(row, at, count, x);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] = Act::value(x[i]);
    if constexpr (kGated) {
      float up[kGroup];
      in.up.read(row, at, count, up);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[i] = x[i] * up[i];
    }
    store(out, row, at, count, x);
  }
};

template <class Act, bool kGated>
struct Backward {
  Halves in;
  Elements dout, dgate, dup;
  __device__ void operator()(Count row, Count at, int count) const {
    float x[kGroup], d[kGroup];
    in.gate.read(row, at, count, x);
    load(dout, row, at, count, d);
    if constexpr (kGated) {
      float up[kGroup];
      in.up.read(row, at, count, up);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const float slope = Act::slope(x[i]), value = Act::value(x[i]);
        x[i] = d[i] * up[i] * slope;
        d[i] = d[i] * value;
      }
      store(dgate, row, at, count, x);
      store(dup, row, at, count, d);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) x[i] = d[i] * Act::slope(x[i]);
      store(dgate, row, at, count, x);
    }
  }
};

// f(an object of the activation's type).
template <class F>
void with(Activation kind, const F& f) {
  switch (kind) {
    case Activation::gelu_tanh: return f(ActGeluTanh{});
    case Activation::gelu_erf: return f(ActGeluErf{});
    case Activation::silu: return f(ActSilu{});
    case Activation::relu: return f(ActRelu{});
    case Activation::squared_relu: return f(ActSquaredRelu{});
  }
}

struct Addend {
  Elements x;
  __device__ void operator()(Count row, Count at, int count, float (&sum)[1][kGroup]) const {
    float v[kGroup];
    load(x, row, at, count, v);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) sum[0][i] += v[i];
  }
};

}  // namespace

void activation_forward(const Stream& stream, const ActivationForwardArgs& g) {
  const Count rows = g.out.dim(0), n = g.out.dim(1);
  if (rows == 0 || n == 0) return;
  const Halves in(g.x, g.bias, n, g.gated);
  with(g.kind, [&](auto act) {
    using Act = decltype(act);
    if (g.gated) each_group(stream, rows, n, Forward<Act, true>{in, elements(g.out)});
    else each_group(stream, rows, n, Forward<Act, false>{in, elements(g.out)});
  });
}

void activation_backward(const Stream& stream, const ActivationBackwardArgs& g) {
  const Count rows = g.dout.dim(0), n = g.dout.dim(1);
  if (rows == 0 || n == 0) return;
  const Halves in(g.x, g.bias, n, g.gated);
  const Elements dgate = elements(g.dx.slice(1, 0, n)), dup = g.gated ? elements(g.dx.slice(1, n, 2 * n)) : Elements{};
  with(g.kind, [&](auto act) {
    using Act = decltype(act);
    if (g.gated) each_group(stream, rows, n, Backward<Act, true>{in, elements(g.dout), dgate, dup});
    else each_group(stream, rows, n, Backward<Act, false>{in, elements(g.dout), dgate, dup});
  });
  // Of dx as rounded: what the weight gradient sees too.
  if (g.dbias) column_sum(stream, {g.dx, g.dbias});
}

void column_sum(const Stream& stream, const ColumnSumArgs& g) {
  column_sums<1>(stream, g.x.dim(0), g.x.dim(1), Addend{elements(g.x)}, g.out);
}

}  // namespace mt::ops::cuda
