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
//
// Members stand in blocks. Since a block was looked at its largest has grown by its largest weight a sample at most, so
// most blocks are known to be behind without a look. The bound allows for the rounding of weight·x; what is compared in
// the end are the numbers themselves, as the plain loop has them.
class FurthestBehind {
 public:
  explicit FurthestBehind(std::span<const double> weights)
      : block_(weights.size() <= 4096 ? 32 : 128), weights_(weights.begin(), weights.end()), drawn_(weights.size()) {
    for (std::size_t at = 0; at < weights.size(); at += block_)
      blocks_.push_back({*std::max_element(weights.begin() + static_cast<std::ptrdiff_t>(at),
                                           weights.begin() + static_cast<std::ptrdiff_t>(std::min(at + block_, weights.size())))});
  }

  //   needs  x as large as the last time or larger
  std::size_t operator()(double x) {
    std::size_t first = 0;
    double highest = -kInfinity;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      Block& block = blocks_[b];
      block.bound = block.largest + (x - block.at) * block.weight + kRounding * (block.weight * x + 1);
      if (block.bound > highest) {
        highest = block.bound;
        first = b;
      }
    }
    double most = look(first, x);
    std::size_t winner = first;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (b == first || blocks_[b].bound < most) continue;
      const double here = look(b, x);
      if (here > most || (here == most && b < winner)) {
        most = here;
        winner = b;
      }
    }
    for (std::size_t i = winner * block_;; ++i)
      if (weights_[i] * x - drawn_[i] == most) return i;
  }

  std::int64_t draw(std::size_t i) { return static_cast<std::int64_t>(drawn_[i]++); }
  // It gives no more.
  void leave(std::size_t i) { drawn_[i] = kInfinity; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kRounding = 16 * std::numeric_limits<double>::epsilon();

  struct Block {
    double weight = 0;              // the largest
    double largest = 0, at = 0;     // weight·x − drawn when it was looked at, and x then; before the first time all are 0
    double bound = 0;
  };

  double look(std::size_t b, double x) {
    const std::size_t begin = b * block_, end = std::min(begin + block_, weights_.size());
    double a = -kInfinity, c = -kInfinity;  // two chains: a comparison takes four cycles
    std::size_t i = begin;
    for (; i + 2 <= end; i += 2) {
      const double even = weights_[i] * x - drawn_[i], odd = weights_[i + 1] * x - drawn_[i + 1];
      a = even > a ? even : a;
      c = odd > c ? odd : c;
    }
    if (i < end) a = std::max(a, weights_[i] * x - drawn_[i]);
    blocks_[b].largest = std::max(a, c);
    blocks_[b].at = x;
    return blocks_[b].largest;
  }

  std::size_t block_;
  std::vector<double> weights_, drawn_;
  std::vector<Block> blocks_;
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
