#include <bit>
#include <vector>

#include "base/dtype.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

// Magnitudes compare as their bits do, and NaN is above infinity.
std::uint32_t magnitude(const float* x, Count n) {
  std::uint32_t most = 0;
  for (Count i = 0; i < n; ++i) most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  return most;
}

template <class T>
void round_run(const float* x, float* out, Count n, float scale, float inverse) {
  for (Count i = 0; i < n; ++i) out[i] = mt::to_f32(mt::from_f32<T>(x[i] * scale)) * inverse;
}

void round_run(DType format, const float* x, float* out, Count n, float scale) {
  if (format == DType::e4m3) round_run<e4m3>(x, out, n, scale, 1 / scale);
  else round_run<e5m2>(x, out, n, scale, 1 / scale);
}

}  // namespace

void abs_max(const Stream& stream, const AbsMaxArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1), block = rows_per_block(n);
  std::vector<std::uint32_t> found(static_cast<std::size_t>((rows + block - 1) / block), 0);
  parallel_ranges(stream, rows, block, [&](Count lo, Count hi) {
    const Scratch s(n);
    std::uint32_t& most = found[static_cast<std::size_t>(lo / block)];
    for (Count t = lo; t < hi; ++t) most = std::max(most, magnitude(read_row(g.x, t, s.at(0)), n));
  });
  auto& out = *g.out.as<float>();
  std::uint32_t most = std::bit_cast<std::uint32_t>(out);
  for (const std::uint32_t f : found) most = std::max(most, f);
  out = std::bit_cast<float>(most);
}

void fp8_round(const Stream& stream, const Fp8RoundArgs& g) {
  const Count rows = g.x.dim(0), n = g.x.dim(1);
  if (g.amax) {
    const float scale = fp8_scale(*g.amax.as<float>(), g.format, g.margin);
    parallel_ranges(stream, rows, rows_per_block(n), [&](Count lo, Count hi) {
      const Scratch s(2 * n);
      for (Count t = lo; t < hi; ++t) {
        const float* x = read_row(g.x, t, s.at(0));
        write_row(g.out, t, s.at(n), [&](float* out) { round_run(g.format, x, out, n, scale); });
      }
    });
    return;
  }
  // A band of rows shares its blocks: their largest magnitudes first, then every row by them.
  const Count across = (n + g.block_columns - 1) / g.block_columns;
  parallel_ranges(stream, rows, g.block_rows, [&](Count lo, Count hi) {
    const Scratch s(2 * n);
    std::vector<std::uint32_t> most(static_cast<std::size_t>(across), 0);
    const auto each = [&](const auto& f) {
      for (Count b = 0; b < across; ++b) {
        const Count at = b * g.block_columns;
        f(static_cast<std::size_t>(b), at, std::min(g.block_columns, n - at));
      }
    };
    for (Count t = lo; t < hi; ++t) {
      const float* x = read_row(g.x, t, s.at(0));
      each([&](std::size_t b, Count at, Count width) { most[b] = std::max(most[b], magnitude(x + at, width)); });
    }
    for (Count t = lo; t < hi; ++t) {
      const float* x = read_row(g.x, t, s.at(0));
      write_row(g.out, t, s.at(n), [&](float* out) {
        each([&](std::size_t b, Count at, Count width) {
          round_run(g.format, x + at, out + at, width, fp8_scale(std::bit_cast<float>(most[b]), g.format, g.margin));
        });
      });
    }
  });
}

void amax_history(const Stream&, const AmaxHistoryArgs& g) {
  const Count n = g.history.dim(1);
  for (Count i = 0; i < n; ++i)
    next_amax(g.history.as<float>() + i, g.history.dim(0), n, g.seen.as<float>() + i, g.used.as<float>() + i, g.most_recent);
}

}  // namespace mt::ops::cpu
