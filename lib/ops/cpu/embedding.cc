#include <algorithm>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

const std::int32_t* ids_of(const View& v) { return static_cast<const std::int32_t*>(v.data); }

constexpr Count kColumns = 64;  // of the table's gradient a thread owns

struct Visit {
  Count row, token;
};

// Tokens whose row is held, row by row, ascending.
std::vector<Visit> visits_of(const EmbeddingBackwardArgs& g) {
  std::vector<Visit> visits;
  for (Count t = 0; t < g.dout.dim(0); ++t)
    if (const Count row = ids_of(g.ids)[t] - g.first_id; row >= 0 && row < g.dweight.dim(0)) visits.push_back({row, t});
  std::stable_sort(visits.begin(), visits.end(), [](const Visit& a, const Visit& b) { return a.row < b.row; });
  return visits;
}

// A row that is not f32 is summed outside and rounded once, so that frequent tokens lose nothing.
void embedding_backward_rounded(const Stream& stream, const EmbeddingBackwardArgs& g) {
  const Count n = g.dout.dim(1);
  const auto visits = visits_of(g);
  parallel_ranges(stream, n, kColumns, [&](Count lo, Count hi) {
    alignas(64) float line[kColumns], sum[kColumns];
    for (std::size_t i = 0; i < visits.size();) {
      const Count row = visits[i].row;
      void* at = element(g.dweight, row * n + lo);
      to_f32(g.dweight.dtype, at, sum, hi - lo);
      for (; i < visits.size() && visits[i].row == row; ++i) {
        const void* from = element(g.dout, visits[i].token * g.dout.strides[0] + lo);
        vector().add(sum, read(g.dout.dtype, from, hi - lo, line), sum, hi - lo);
      }
      from_f32(g.dweight.dtype, sum, at, hi - lo);
    }
  });
}

}  // namespace

void embedding_forward(const Stream& stream, const EmbeddingForwardArgs& g) {
  const Count tokens = g.out.dim(0), n = g.out.dim(1), held = g.weight.dim(0);
  parallel_ranges(stream, tokens, rows_per_block(n), [&](Count lo, Count hi) {
    const Scratch s(4 * n);
    std::fill(s.at(0), s.at(n), 0.0f);
    for (Count t = lo; t < hi; ++t) {
      const Count row = ids_of(g.ids)[t] - g.first_id;
      const float* token = row >= 0 && row < held ? read_row(g.weight, row, s.at(n)) : s.at(0);
      const float* place =
          g.position_weight ? read_row(g.position_weight, ids_of(g.positions)[t], s.at(2 * n)) : nullptr;
      write_row(g.out, t, s.at(3 * n), [&](float* out) { vector().bias_add(token, nullptr, place, out, n); });
    }
  });
}

void embedding_backward(const Stream& stream, const EmbeddingBackwardArgs& g) {
  if (g.dweight.dtype != DType::f32) return embedding_backward_rounded(stream, g);
  const Count tokens = g.dout.dim(0), n = g.dout.dim(1), held = g.dweight.dim(0);
  parallel_ranges(stream, n, kColumns, [&](Count lo, Count hi) {
    alignas(64) float line[kColumns];
    for (Count t = 0; t < tokens; ++t) {
      const Count row = ids_of(g.ids)[t] - g.first_id;
      if (row < 0 || row >= held) continue;
      float* sum = static_cast<float*>(element(g.dweight, row * n + lo));
      vector().add(sum, read(g.dout.dtype, element(g.dout, t * g.dout.strides[0] + lo), hi - lo, line), sum, hi - lo);
    }
  });
}

}  // namespace mt::ops::cpu
