// The arithmetic of blends: weights, numbers of samples, and the two greedy orders. Built without contraction of a*b+c.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/blend.h"

namespace mt::data {

namespace {

// As numpy adds: in order below 8, in eight running sums up to 128, in halves beyond.
double numpy_sum(const double* x, std::size_t n) {
  constexpr std::size_t kLanes = 8, kBlock = 128;
  if (n < kLanes) return std::accumulate(x, x + n, 0.0);
  if (n > kBlock) {
    const std::size_t half = n / 2 - n / 2 % kLanes;
    return numpy_sum(x, half) + numpy_sum(x + half, n - half);
  }
  std::array<double, kLanes> r;
  std::copy_n(x, kLanes, r.begin());
  std::size_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) r[l] += x[i + l];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// The member with the largest weight·x − drawn, the first of equals.
//   weights, drawn  padded to whole blocks by members that are always further ahead
class FurthestBehind {
 public:
  explicit FurthestBehind(std::span<const double> weights)
      : n_(weights.size()), padded_((n_ + kBlock - 1) / kBlock * kBlock), weights_(padded_, 0.0),
        drawn_(padded_, std::numeric_limits<double>::infinity()) {
    std::copy(weights.begin(), weights.end(), weights_.begin());
    std::fill_n(drawn_.begin(), n_, 0.0);
  }

  std::size_t operator()(double x) const {
    double most = -std::numeric_limits<double>::infinity();
    std::size_t block = 0;
    for (std::size_t b = 0; b < padded_; b += kBlock) {
      const double here = largest(b, x);
      if (here > most) {
        most = here;
        block = b;
      }
    }
    for (std::size_t i = block;; ++i)
      if (weights_[i] * x - drawn_[i] == most) return i;
  }

  std::int64_t draw(std::size_t i) { return static_cast<std::int64_t>(drawn_[i]++); }
  // It gives no more.
  void leave(std::size_t i) { drawn_[i] = std::numeric_limits<double>::infinity(); }

 private:
  static constexpr std::size_t kBlock = 32, kLanes = 8;

  double largest(std::size_t b, double x) const {
    std::array<double, kLanes> most;
    most.fill(-std::numeric_limits<double>::infinity());
    for (std::size_t i = b; i < b + kBlock; i += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) {
        const double behind = weights_[i + l] * x - drawn_[i + l];
        most[l] = behind > most[l] ? behind : most[l];
      }
    return *std::max_element(most.begin(), most.end());
  }

  std::size_t n_, padded_;
  std::vector<double> weights_, drawn_;
};

double place_of(std::size_t k) { return static_cast<double>(std::max<std::size_t>(k, 1)); }

}  // namespace

std::vector<double> normalised(std::span<const double> weights) {
  const double sum = numpy_sum(weights.data(), weights.size());
  std::vector<double> out(weights.begin(), weights.end());
  for (double& w : out) w /= sum;
  return out;
}

MemberSamples member_samples(std::int64_t wanted, double weight, double surplus) {
  const double drawn = std::ceil(static_cast<double>(wanted) * weight);
  return {static_cast<std::int64_t>(drawn), static_cast<std::int64_t>(std::ceil(drawn * (1 + surplus)))};
}

void fill_blend_order(std::span<const double> weights, const BlendOrder& order) {
  MT_CHECK(!weights.empty() && weights.size() <= kMostMembers, "{} members", weights.size());
  FurthestBehind furthest(weights);
  for (std::size_t k = 0; k < order.member.size(); ++k) {
    const std::size_t i = furthest(place_of(k));
    order.member[k] = static_cast<std::int16_t>(i);
    order.ordinal[k] = furthest.draw(i);
  }
}

void fill_exhaustive_order(std::span<const std::int64_t> sizes, const BlendOrder& order) {
  MT_CHECK(!sizes.empty() && sizes.size() <= kMostMembers, "{} members", sizes.size());
  const auto total = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  std::vector<double> weights;
  for (const std::int64_t n : sizes) weights.push_back(static_cast<double>(n) / total);
  FurthestBehind furthest(weights);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 0) furthest.leave(i);
  for (std::size_t k = 0; k < order.member.size(); ++k) {
    const std::size_t i = furthest(place_of(k));
    order.member[k] = static_cast<std::int16_t>(i);
    order.ordinal[k] = furthest.draw(i);
    if (order.ordinal[k] + 1 == sizes[i]) furthest.leave(i);
  }
}

}  // namespace mt::data
