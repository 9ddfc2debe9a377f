#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

void rotary(const Stream& stream, const RotaryArgs& g) {
  const Count tokens = g.x.dim(0), heads = g.x.dim(1), r = g.table.dim(1), half = r / 2;
  const float sign = g.inverse ? -1.0f : 1.0f;
  const auto turn = g.interleaved ? vector().rotate_interleaved : vector().rotate_half;
  parallel_ranges(stream, tokens, rows_per_block(heads * r), [&](Count lo, Count hi) {
    const Scratch s(r);
    for (Count t = lo; t < hi; ++t) {
      const float* cosine =
          static_cast<const float*>(g.table.data) + static_cast<const std::int32_t*>(g.positions.data)[t] * r;
      for (Count h = 0; h < heads; ++h) {
        void* x = element(g.x, t * g.x.strides[0] + h * g.x.strides[1]);
        if (g.x.dtype == DType::f32) {
          turn(static_cast<float*>(x), cosine, cosine + half, sign, half);
        } else {
          to_f32(g.x.dtype, x, s.at(0), r);
          turn(s.at(0), cosine, cosine + half, sign, half);
          from_f32(g.x.dtype, s.at(0), x, r);
        }
      }
    }
  });
}

}  // namespace mt::ops::cpu
