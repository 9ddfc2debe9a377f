// Tiles over (m, n); each tile is one product on the calling thread. The cut depends on the shape alone: a library that
// cuts by the number of threads changes the order of its sums with it.
#include <algorithm>
#include <array>

#include "ops/cpu/kernels.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

constexpr Count kWantedTiles = 8;    // enough for a few cores; fewer and larger tiles run faster
constexpr Count kDepth = 512;        // of operands widened to f32
constexpr Count kSplitDepth = 2048;  // of a sum that has one tile only

Count tiles_of(Count size, Count tile) { return (size + tile - 1) / tile; }

// Equal parts of at most `most`, on borders of 32.
Count balanced(Count size, Count most) {
  const Count part = tiles_of(size, tiles_of(size, most));
  return std::max<Count>((part + 31) / 32 * 32, 32);
}

struct Cut {
  Count m, n;
};

Cut cut(Count batch, Count m, Count n) {
  Count tm = 1024, tn = 384;
  const auto count = [&] { return batch * tiles_of(m, tm) * tiles_of(n, tn); };
  while (count() < kWantedTiles && (tm > 128 || tn > 128)) {
    if (std::min(tm, m) > std::min(tn, n) && tm > 128) tm /= 2;
    else if (tn > 128) tn = tn == 384 ? 192 : 128;
    else tm /= 2;
  }
  return {balanced(m, tm), balanced(n, tn)};
}

// Copy op(x)[rows, columns] as f32; `transposed` when stored [columns, rows].
void widen(const Operand& x, Count rows, Count columns, float* out, Count out_row, float* line) {
  if (!x.transposed) {
    for (Count i = 0; i < rows; ++i) to_f32(x.dtype, x.at(i, 0), out + i * out_row, columns);
    return;
  }
  constexpr Count kLines = 16;
  for (Count j = 0; j < columns; j += kLines) {
    const Count lines = std::min(kLines, columns - j);
    for (Count l = 0; l < lines; ++l) to_f32(x.dtype, x.at(0, j + l), line + l * rows, rows);
    vector().transpose(line, rows, lines, rows, out + j, out_row);
  }
}

// A product of operands the machine has no instructions for: f32 copies of slices of k, summed in an f32 tile.
void widened_product(const Product& p) {
  const Count depth = std::min(kDepth, p.k), wide = (p.n + 15) / 16 * 16;
  const Scratch scratch(p.m * depth + depth * wide + p.m * wide + 16 * std::max(p.m, depth) + wide);
  float *a = scratch.at(0), *b = a + p.m * depth, *c = b + depth * wide, *line = c + p.m * wide,
        *bias = line + 16 * std::max(p.m, depth);
  if (wide != p.n) std::fill(b, b + depth * wide, 0.0f);
  for (Count k = 0; k < p.k; k += depth) {
    const Count d = std::min(depth, p.k - k);
    widen(p.a.from(0, k), p.m, d, a, depth, line);
    widen(p.b.from(k, 0), d, p.n, b, wide, line);
    vector().block_product({p.m, wide, d, a, depth, 1, b, wide, c, wide, k > 0});
  }
  const float* add = p.bias.data ? read(p.bias.dtype, p.bias.data, p.n, bias) : nullptr;
  for (Count i = 0; i < p.m; ++i) {
    float* row = c + i * wide;
    if (p.accumulate) vector().add(p.c.as_f32(i), row, row, p.n);
    if (add != nullptr) vector().add(row, add, row, p.n);
    from_f32(p.c.dtype, row, p.c.at(i, 0), p.n);
  }
}

bool native(DType dtype) {
#if defined(_OPENMP)
  return dtype == DType::f32 || (dtype == DType::bf16 && cpu_isa() == CpuIsa::avx512_bf16 && onednn_has_bf16());
#else
  (void)dtype;
  return false;
#endif
}

void product(const Product& p, bool is_native) {
  if (is_native) onednn_product(p);
  else widened_product(p);
}

// Rows of an f32 sum added to those of c, which are of another dtype: rounded once.
void add_rounded(const Product& p, float* sum, float* line) {
  for (Count i = 0; i < p.m; ++i) {
    float* row = sum + i * p.n;
    vector().add(read(p.c.dtype, p.c.at(i, 0), p.n, line), row, row, p.n);
    from_f32(p.c.dtype, row, p.c.at(i, 0), p.n);
  }
}

void add_product(const Product& p, bool is_native) {
  const Scratch scratch(p.m * p.n + p.n);
  Product sum = p;
  sum.c = {scratch.at(0), DType::f32, p.n, false};
  sum.accumulate = false;
  product(sum, is_native);
  add_rounded(p, scratch.at(0), scratch.at(p.m * p.n));
}

// k is 0: the sum is empty.
void empty_sum(const Product& p) {
  if (p.accumulate) return;
  const Scratch scratch(p.n);
  std::fill(scratch.at(0), scratch.at(p.n), 0.0f);
  if (p.bias.data) to_f32(p.bias.dtype, p.bias.data, scratch.at(0), p.n);
  for (Count i = 0; i < p.m; ++i) from_f32(p.c.dtype, scratch.at(0), p.c.at(i, 0), p.n);
}

// One tile and a long sum: parts of k side by side, added in order.
void split_product(const Stream& stream, const Product& p, bool is_native) {
  const Count parts = tiles_of(p.k, kSplitDepth), size = p.m * p.n;
  const Scratch scratch(parts * size + p.n);
  parallel_blocks(stream, parts, [&](Count i) {
    Product part = p;
    part.a = p.a.from(0, i * kSplitDepth);
    part.b = p.b.from(i * kSplitDepth, 0);
    part.k = std::min(kSplitDepth, p.k - i * kSplitDepth);
    part.c = Operand{scratch.at(i * size), DType::f32, p.n, false};
    part.bias = {};
    part.accumulate = false;
    product(part, is_native);
  });
  for (Count i = 1; i < parts; ++i) vector().add(scratch.at(0), scratch.at(i * size), scratch.at(0), size);
  if (p.accumulate && p.c.dtype != DType::f32) return add_rounded(p, scratch.at(0), scratch.at(parts * size));
  const float* bias = p.bias.data ? read(p.bias.dtype, p.bias.data, p.n, scratch.at(parts * size)) : nullptr;
  for (Count i = 0; i < p.m; ++i) {
    float* row = scratch.at(i * p.n);
    if (p.accumulate) vector().add(p.c.as_f32(i), row, row, p.n);
    if (bias != nullptr) vector().add(row, bias, row, p.n);
    from_f32(p.c.dtype, row, p.c.at(i, 0), p.n);
  }
}

Operand operand(const View& v, bool transposed) {
  return {v.data, v.dtype, std::max(v.stride(-2), v.dim(-1)), transposed};
}

Operand of_batch(Operand x, const View& v, Count i) {
  if (v.num_dims() == 3) x.data = static_cast<std::byte*>(x.data) + bytes_of(v.dtype, i * v.stride(0));
  return x;
}

}  // namespace

void gemm(const Stream& stream, const GemmArgs& g) {
  const Count batch = g.c.num_dims() == 3 ? g.c.dim(0) : 1;
  Product whole;
  whole.m = g.c.dim(-2);
  whole.n = g.c.dim(-1);
  whole.k = g.trans_a ? g.a.dim(-2) : g.a.dim(-1);
  whole.a = operand(g.a, g.trans_a);
  whole.b = operand(g.b, g.trans_b);
  whole.c = operand(g.c, false);
  whole.accumulate = g.accumulate;
  if (g.bias) whole.bias = {g.bias.data, g.bias.dtype, whole.n, false};

  const Cut t = cut(batch, whole.m, whole.n);
  const Count down = tiles_of(whole.m, t.m), across = tiles_of(whole.n, t.n);
  const bool is_native = native(g.a.dtype);
  if (batch * down * across == 1 && whole.k >= 2 * kSplitDepth) return split_product(stream, whole, is_native);

  parallel_blocks(stream, batch * down * across, [&](Count i) {
    const Count row = i % down * t.m, column = i / down % across * t.n, item = i / (down * across);
    Product p = whole;
    p.a = of_batch(whole.a, g.a, item).from(row, 0);
    p.b = of_batch(whole.b, g.b, item).from(0, column);
    p.c = of_batch(whole.c, g.c, item).from(row, column);
    if (p.bias.data) p.bias = whole.bias.from(0, column);
    p.m = std::min(t.m, whole.m - row);
    p.n = std::min(t.n, whole.n - column);
    if (p.k == 0) empty_sum(p);
    else if (p.accumulate && p.c.dtype != DType::f32) add_product(p, is_native);
    else product(p, is_native);
  });
}

}  // namespace mt::ops::cpu
