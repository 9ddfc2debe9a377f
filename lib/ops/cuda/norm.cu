// A row belongs to a warp where it is short and to a block where it is long, and stays in registers between the sums
// over it and what is made of them.
#include "ops/cuda/column_sums.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

// Who works on a row: `width` threads, each with kHeld groups.
struct Row {
  Count row;
  unsigned lane, width;
};

__device__ inline Row row_of(unsigned width) {
  const unsigned at = threadIdx.x / width;
  return {static_cast<Count>(blockIdx.x) * (blockDim.x / width) + at, threadIdx.x % width, width};
}

// Threads of rows beyond the last leave; a row is whole warps, and a block where it is more than one.
__device__ inline float row_sum(float x, unsigned width, float* slots) {
  return width == 32 ? over_warp(x, Sum{}) : over_block(x, slots, Sum{});
}

template <int kHeld>
struct Held {
  float v[kHeld][kGroup];
};

// f(j, column, count) for the groups of a thread.
template <int kHeld, class F>
__device__ inline void each_held(const Row& r, Count columns, const F& f) {
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const Count column = (static_cast<Count>(j) * r.width + r.lane) * kGroup, rest = columns - column;
    if (rest > 0) f(j, column, rest < kGroup ? static_cast<int>(rest) : kGroup);
  }
}

struct ForwardArgs {
  Elements x, weight, bias, out;
  float *mean, *rstd;
  Count rows, columns;
  float epsilon, shift;
  unsigned width;
};

template <int kHeld, bool kLayer>
__global__ void norm_forward(ForwardArgs g) {
  const Row r = row_of(g.width);
  if (r.row >= g.rows) return;
  auto* slots = shared_mem<float>();
  const float n = static_cast<float>(g.columns);
  Held<kHeld> x;
  float sum = 0;
  each_held<kHeld>(r, g.columns, [&](int j, Count at, int count) {
    load(g.x, r.row, at, count, x.v[j]);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) sum += kLayer ? x.v[j][i] : x.v[j][i] * x.v[j][i];
  });
  sum = row_sum(sum, g.width, slots);
  float mean = 0;
  if constexpr (kLayer) {
    mean = sum / n;
    float squares = 0;
    each_held<kHeld>(r, g.columns, [&](int j, Count, int count) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const float d = x.v[j][i] - mean;
        if (i < count) squares += d * d;  // what holds nothing would add mean²
      }
    });
    sum = row_sum(squares, g.width, slots + 32);
  }
  const float rstd = 1.0f / sqrtf(sum / n + g.epsilon);
  each_held<kHeld>(r, g.columns, [&](int j, Count at, int count) {
    float w[kGroup], b[kGroup];
    load(g.weight, 0, at, count, w);
    if constexpr (kLayer) load(g.bias, 0, at, count, b);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float y = (kLayer ? x.v[j][i] - mean : x.v[j][i]) * rstd * (w[i] + g.shift);
      x.v[j][i] = kLayer ? y + b[i] : y;
    }
    store(g.out, r.row, at, count, x.v[j]);
  });
  if (r.lane != 0) return;
  if (kLayer && g.mean != nullptr) g.mean[r.row] = mean;
  if (g.rstd != nullptr) g.rstd[r.row] = rstd;
}

struct BackwardArgs {
  Elements dout, x, weight, dresidual, dx;
  const float *mean, *rstd;
  Count rows, columns;
  float shift;
  unsigned width;
};

template <int kHeld, bool kLayer>
__global__ void norm_backward(BackwardArgs g) {
  const Row r = row_of(g.width);
  if (r.row >= g.rows) return;
  auto* slots = shared_mem<float>();
  const float n = static_cast<float>(g.columns), rstd = g.rstd[r.row], mean = kLayer ? g.mean[r.row] : 0.0f;
  Held<kHeld> x, d;
  float plain = 0, along = 0;
  each_held<kHeld>(r, g.columns, [&](int j, Count at, int count) {
    float w[kGroup];
    load(g.x, r.row, at, count, x.v[j]);
    load(g.dout, r.row, at, count, d.v[j]);
    load(g.weight, 0, at, count, w);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (kLayer) x.v[j][i] = (x.v[j][i] - mean) * rstd;
      d.v[j][i] *= i < count ? w[i] + g.shift : 0.0f;
      plain += d.v[j][i];
      along += d.v[j][i] * x.v[j][i];
    }
  });
  along = row_sum(along, g.width, slots);
  if constexpr (kLayer) plain = row_sum(plain, g.width, slots + 32);
  const float c = kLayer ? along / n : along / n * rstd * rstd, mean_g = kLayer ? plain / n : 0.0f;
  each_held<kHeld>(r, g.columns, [&](int j, Count at, int count) {
    float more[kGroup] = {};
    if (g.dresidual.data != nullptr) load(g.dresidual, r.row, at, count, more);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float own = kLayer ? rstd * (d.v[j][i] - mean_g - x.v[j][i] * c) : rstd * (d.v[j][i] - x.v[j][i] * c);
      d.v[j][i] = own + more[i];
    }
    store(g.dx, r.row, at, count, d.v[j]);
  });
}

// What a row adds to the gradients of weight and bias.
template <bool kLayer>
struct Columns {
  Elements dout, x;
  const float *mean, *rstd;
  __device__ void operator()(Count row, Count at, int count, float (&sum)[kLayer ? 2 : 1][kGroup]) const {
    float d[kGroup], v[kGroup];
    load(dout, row, at, count, d);
    load(x, row, at, count, v);
    const float by = rstd[row], middle = kLayer ? mean[row] : 0.0f;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      sum[0][i] += d[i] * ((kLayer ? v[i] - middle : v[i]) * by);
      if constexpr (kLayer) sum[1][i] += d[i];
    }
  }
};

struct Width {
  unsigned threads;
  int held;
};

// Groups a thread holds: as few as 1024 threads allow, four before a second warp is asked for.
Width width_for(Count columns) {
  const Count groups = ceil_div(columns, kGroup);
  if (groups <= 32) return {32, 1};
  if (groups <= 64) return {32, 2};
  if (groups <= 128) return {32, 4};
  unsigned threads = 64;
  while (threads < 1024 && static_cast<Count>(threads) * 2 < groups) threads *= 2;
  const Count each = ceil_div(groups, threads);
  MT_CHECK(each <= 16, "a norm over {} columns", columns);
  return {threads, each <= 2 ? 2 : each <= 4 ? 4 : 16};
}

template <class Args, class K>
void start(const Stream& stream, const Args& g, Width width, K held1, K held2, K held4, K held16) {
  const unsigned threads = width.threads > 128 ? width.threads : width.threads > 32 ? width.threads : 128;
  const Count blocks = ceil_div(g.rows, static_cast<Count>(threads / width.threads));
  const K kernel = width.held == 1 ? held1 : width.held == 2 ? held2 : width.held == 4 ? held4 : held16;
  launch(stream, kernel, {.x = static_cast<unsigned>(blocks), .threads = threads, .shared_bytes = 64 * sizeof(float)},
         g);
}

float* floats(const View& v) { return static_cast<float*>(v.data); }

template <bool kLayer>
void forward(const Stream& stream, ForwardArgs g) {
  if (g.rows == 0 || g.columns == 0) return;
  const Width width = width_for(g.columns);
  g.width = width.threads;
  start(stream, g, width, norm_forward<1, kLayer>, norm_forward<2, kLayer>, norm_forward<4, kLayer>,
        norm_forward<16, kLayer>);
}

template <bool kLayer>
void backward(const Stream& stream, BackwardArgs g) {
  if (g.rows == 0 || g.columns == 0) return;
  const Width width = width_for(g.columns);
  g.width = width.threads;
  start(stream, g, width, norm_backward<1, kLayer>, norm_backward<2, kLayer>, norm_backward<4, kLayer>,
        norm_backward<16, kLayer>);
}

}  // namespace

void rms_norm_forward(const Stream& stream, const RmsNormForwardArgs& g) {
  forward<false>(stream, {elements(g.x),
                          flat(g.weight),
                          {},
                          elements(g.out),
                          nullptr,
                          floats(g.rstd),
                          g.x.dim(0),
                          g.x.dim(1),
                          g.epsilon,
                          g.one_plus ? 1.0f : 0.0f,
                          0});
}

void layer_norm_forward(const Stream& stream, const LayerNormForwardArgs& g) {
  forward<true>(stream, {elements(g.x), flat(g.weight), flat(g.bias), elements(g.out), floats(g.mean), floats(g.rstd),
                         g.x.dim(0), g.x.dim(1), g.epsilon, g.one_plus ? 1.0f : 0.0f, 0});
}

void rms_norm_backward(const Stream& stream, const RmsNormBackwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  // Before dx: dx may be dout.
  if (g.dweight)
    column_sums<1>(stream, rows, n, Columns<false>{elements(g.dout), elements(g.x), nullptr, floats(g.rstd)},
                   g.dweight);
  if (!g.dx) return;
  backward<false>(stream, {elements(g.dout), elements(g.x), flat(g.weight), elements(g.dresidual), elements(g.dx),
                           nullptr, floats(g.rstd), rows, n, g.one_plus ? 1.0f : 0.0f, 0});
}

void layer_norm_backward(const Stream& stream, const LayerNormBackwardArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  if (g.dweight)
    column_sums<2>(stream, rows, n, Columns<true>{elements(g.dout), elements(g.x), floats(g.mean), floats(g.rstd)},
                   g.dweight, g.dbias);
  if (!g.dx) return;
  backward<true>(stream, {elements(g.dout), elements(g.x), flat(g.weight), elements(g.dresidual), elements(g.dx),
                          floats(g.mean), floats(g.rstd), rows, n, g.one_plus ? 1.0f : 0.0f, 0});
}

}  // namespace mt::ops::cuda
