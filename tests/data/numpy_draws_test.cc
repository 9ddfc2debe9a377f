// Draws against numpy 2.4's RandomState(1234), one after another on one stream.

#include "data/numpy_draws.h"

#include <cmath>

#include <gtest/gtest.h>

namespace mt::data {
namespace {

TEST(NumpyDraws, follow_numpy_on_one_stream) {
  NumpyRandomState random(1234);
  for (const double x : {0.1915194503788923, 0.6221087710398319, 0.4377277390071145})
    EXPECT_EQ(draw_uniform(random), x);
  for (const std::uint32_t n : {8u, 9u, 1u, 7u, 9u, 10u}) EXPECT_EQ(draw_up_to(random, 10), n);
  EXPECT_EQ(draw_up_to(random, 0), 0u);
  for (const std::uint32_t n : {3u, 4u, 3u, 1u}) EXPECT_EQ(1 + draw_up_to(random, 3), n);
  const std::pair<double, bool> chances[] = {{0.5, false}, {0.3, false}, {0.7, true}, {0.0, false},
                                             {1.0, true},  {0.9, true},  {0.1, false}};
  for (const auto& [p, hit] : chances) EXPECT_EQ(draw_chance(random, p), hit) << p;
  for (const std::int64_t n : {1, 3, 1, 2, 2, 7, 10, 20}) EXPECT_EQ(draw_geometric(random, 0.2), n);
  const double shares[] = {0.5, 0.3, 0.2};
  for (const std::size_t n : {0u, 0u, 0u, 1u, 1u, 0u, 0u, 1u}) EXPECT_EQ(draw_choice(random, shares), n);
  std::vector<char> letters{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'};
  shuffle_list(random, letters);
  EXPECT_EQ(std::string(letters.begin(), letters.end()), "icdjgaefhb");
  EXPECT_EQ(draw_uniform(random), 0.3279120841985018);
}

TEST(NumpyDraws, sums_in_numpys_order) {
  std::vector<double> v;
  for (int n = 1; n <= 20; ++n) {
    v.push_back(1.0 / n);
    for (const auto& [count, sum] : {std::pair{3, 1.8333333333333333}, {10, 2.9289682539682538}, {20, 3.597739657143682}}) {
      if (n == count) {
        EXPECT_EQ(numpy_sum(v), sum);
      }
    }
  }
}

TEST(NumpyDraws, chances_come_true_as_often_as_they_say) {
  NumpyRandomState random(7);
  for (const double p : {0.05, 0.5, 0.8}) {
    int hits = 0;
    for (int i = 0; i < 20000; ++i) hits += draw_chance(random, p) ? 1 : 0;
    EXPECT_NEAR(hits / 20000.0, p, 4 * std::sqrt(p * (1 - p) / 20000)) << p;
  }
}

}  // namespace
}  // namespace mt::data
