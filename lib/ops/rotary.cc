#include "ops/rotary.h"

#include <cmath>

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

namespace {
constexpr double kPi = 3.14159265358979323846;
}

std::vector<float> rotary_frequencies(const RotarySpec& spec) {
  MT_CHECK(spec.rotary_dim >= 0 && spec.rotary_dim % 2 == 0, "rotary dim {}", spec.rotary_dim);
  std::vector<float> out;
  for (std::int64_t i = 0; i < spec.rotary_dim / 2; ++i) {
    double f = std::pow(spec.base, -2.0 * static_cast<double>(i) / static_cast<double>(spec.rotary_dim));
    if (spec.factor != 1) {
      const double wave = 2 * kPi / f, longest = spec.original_positions / spec.low_freq_factor,
                   shortest = spec.original_positions / spec.high_freq_factor;
      if (wave > longest) {
        f /= spec.factor;
      } else if (wave > shortest) {
        const double keep =
            (spec.original_positions / wave - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor);
        f = (1 - keep) * f / spec.factor + keep * f;
      }
    }
    out.push_back(static_cast<float>(f));
  }
  return out;
}

std::vector<float> rotary_table(const RotarySpec& spec, std::int64_t positions) {
  const std::vector<float> f = rotary_frequencies(spec);
  const std::size_t half = f.size();
  std::vector<float> table(static_cast<std::size_t>(positions) * 2 * half);
  for (std::size_t p = 0; p < static_cast<std::size_t>(positions); ++p)
    for (std::size_t i = 0; i < half; ++i) {
      const float position = static_cast<float>(p) * static_cast<float>(1 / spec.interpolation);
      const auto angle = static_cast<double>(position * f[i]);
      table[p * 2 * half + i] = static_cast<float>(std::cos(angle));
      table[p * 2 * half + half + i] = static_cast<float>(std::sin(angle));
    }
  return table;
}

void rotary(Stream& stream, const RotaryArgs& g) {
  MT_CHECK(g.x.num_dims() == 3 && g.table.num_dims() == 2, "x {}, table {}", shape_text(g.x.shape),
           shape_text(g.table.shape));
  MT_CHECK_FLOAT(g.x, {g.x.dim(0), g.x.dim(1), g.x.dim(2)});
  MT_CHECK_VIEW(g.positions, DType::i32, {g.x.dim(0)});
  MT_CHECK_VIEW(g.table, DType::f32, {g.table.dim(0), g.table.dim(1)});
  MT_CHECK(g.table.dim(1) % 2 == 0 && g.table.dim(1) <= g.x.dim(2), "rotary dim {} of head dim {}", g.table.dim(1),
           g.x.dim(2));
  dispatch(stream, &Kernels::rotary, g);
}

Cost rotary_cost(std::int64_t tokens, std::int64_t heads, std::int64_t rotary_dim, int bytes_per_element) {
  const double n = static_cast<double>(tokens) * static_cast<double>(heads) * static_cast<double>(rotary_dim);
  return {3 * n, 2 * n * bytes_per_element};
}

}  // namespace mt::ops
