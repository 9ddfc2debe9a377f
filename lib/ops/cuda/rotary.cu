#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"

namespace mt::ops::cuda {

namespace {

// Rows are (token, head), columns are pairs.
template <bool kInterleaved>
struct Turn {
  Elements first, second, cosine, sine;  // interleaved: `first` holds both
  const std::int32_t* positions;
  Count heads, head_stride;
  float sign;

  __device__ void operator()(Count row, Count pair, int count) const {
    const Count token = row / heads, place = row % heads * head_stride, at = positions[token];
    float c[kGroup], s[kGroup], a[kGroup], b[kGroup];
    load(cosine, at, pair, count, c);
    load(sine, at, pair, count, s);
    if constexpr (kInterleaved) {
      float low[kGroup], high[kGroup];
      const Count from = place + 2 * pair;
      const int in_low = 2 * count < kGroup ? 2 * count : kGroup, in_high = 2 * count - in_low;
      load(first, token, from, in_low, low);
      load(first, token, from + kGroup, in_high, high);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        a[i] = i < 4 ? low[2 * i & 7] : high[2 * i & 7];
        b[i] = i < 4 ? low[(2 * i + 1) & 7] : high[(2 * i + 1) & 7];
      }
      turn(a, b, c, s);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low[2 * i] = a[i], low[2 * i + 1] = b[i];
        high[2 * i] = a[i + 4], high[2 * i + 1] = b[i + 4];
      }
      store(first, token, from, in_low, low);
      if (in_high > 0) store(first, token, from + kGroup, in_high, high);
    } else {
      load(first, token, place + pair, count, a);
      load(second, token, place + pair, count, b);
      turn(a, b, c, s);
      store(first, token, place + pair, count, a);
      store(second, token, place + pair, count, b);
    }
  }
  __device__ void turn(float (&a)[kGroup], float (&b)[kGroup], const float (&c)[kGroup],
                       const float (&s)[kGroup]) const {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float x = a[i], y = b[i], w = s[i] * sign;
      a[i] = x * c[i] - y * w;
      b[i] = y * c[i] + x * w;
    }
  }
};

}  // namespace

void rotary(const Stream& stream, const RotaryArgs& g) {
  const Count tokens = g.x.dim(0), heads = g.x.dim(1), r = g.table.dim(1), half = r / 2;
  if (tokens == 0 || heads == 0 || half == 0) return;
  const auto part = [&](const View& v, Count from) { return elements(v.slice(-1, from, from + half)); };
  const Elements first = part(g.x, 0), second = part(g.x, half), cosine = part(g.table, 0), sine = part(g.table, half);
  const auto* positions = static_cast<const std::int32_t*>(g.positions.data);
  const float sign = g.inverse ? -1.0f : 1.0f;
  const Count stride = g.x.stride(1);
  if (g.interleaved)
    each_group(stream, tokens * heads, half, Turn<true>{first, second, cosine, sine, positions, heads, stride, sign});
  else
    each_group(stream, tokens * heads, half, Turn<false>{first, second, cosine, sine, positions, heads, stride, sign});
}

}  // namespace mt::ops::cuda
