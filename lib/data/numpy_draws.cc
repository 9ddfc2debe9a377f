#include "data/numpy_draws.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mt::data {

double draw_uniform(NumpyRandomState& random) {
  const std::uint32_t high = random.next() >> 5, low = random.next() >> 6;
  return (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) / 9007199254740992.0;
}

std::uint32_t draw_up_to(NumpyRandomState& random, std::uint32_t most) {
  if (most == 0) return 0;
  std::uint32_t mask = most;
  for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
  std::uint32_t value = random.next() & mask;
  while (value > most) value = random.next() & mask;
  return value;
}

bool draw_chance(NumpyRandomState& random, double p) {
  MT_CHECK(p >= 0 && p <= 1, "a chance of {}", p);
  // Inversion over the smaller of p and 1 - p; whole numbers beyond 1 are drawn again.
  const double rare = p <= 0.5 ? p : 1.0 - p;
  const double none = std::exp(std::log(1.0 - rare));
  bool hit = false;
  for (double rest = draw_uniform(random);; rest = draw_uniform(random)) {
    hit = rest > none;
    if (!hit || rest - none <= rare * none / (1.0 - rare)) break;
  }
  return p <= 0.5 ? hit : !hit;
}

std::int64_t draw_geometric(NumpyRandomState& random, double p) {
  MT_CHECK(p > 0 && p < 1.0 / 3, "a chance of {}", p);
  return static_cast<std::int64_t>(std::ceil(std::log1p(-draw_uniform(random)) / std::log(1.0 - p)));
}

std::size_t draw_choice(NumpyRandomState& random, std::span<const double> p) {
  MT_CHECK(!p.empty(), "nothing to choose from");
  std::vector<double> upto;
  for (const double share : p) upto.push_back(upto.empty() ? share : upto.back() + share);
  const double all = upto.back();
  for (double& x : upto) x /= all;
  const double x = draw_uniform(random);
  const auto place = std::upper_bound(upto.begin(), upto.end(), x);
  return std::min(static_cast<std::size_t>(place - upto.begin()), p.size() - 1);
}

double numpy_sum(std::span<const double> v) {
  MT_CHECK(v.size() <= 128, "{} values", v.size());
  if (v.size() < 8) {
    double sum = 0;
    for (const double x : v) sum += x;
    return sum;
  }
  double r[8];
  std::copy_n(v.begin(), 8, r);
  std::size_t i = 8;
  for (; i + 8 <= v.size(); i += 8)
    for (std::size_t k = 0; k < 8; ++k) r[k] += v[i + k];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < v.size(); ++i) sum += v[i];
  return sum;
}

}  // namespace mt::data
