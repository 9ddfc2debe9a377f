// Initial values do not know the layout, are what they are on every machine, and follow the normal law.

#include "layout/initial_values.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "layout/models.h"

namespace mt {
namespace {

Piece normal_piece(const std::string& name, Dims shape, double std) {
  Piece p;
  p.name = name;
  p.box = p.local = whole(shape);
  p.shape = std::move(shape);
  p.init = {Init::Kind::normal, std};
  return p;
}

std::vector<float> values(const Piece& piece, const Box& box, std::uint64_t seed = 1234) {
  std::vector<float> out(static_cast<std::size_t>(box.size()));
  initial_values(piece, seed, box, out.data());
  return out;
}

TEST(InitialValues, EveryBoxHoldsThePartOfTheWhole) {
  const Piece piece = normal_piece("decoder.layers.0.mlp.linear_fc1.weight", {13, 7}, 0.02);
  const auto all = values(piece, whole(piece.shape));
  for (std::int64_t r = 0; r < 13; r += 3)
    for (std::int64_t c = 0; c < 7; c += 2)
      for (std::int64_t h : {1, 2})
        for (std::int64_t w : {1, 3}) {
          const Box box{{r, c}, {std::min(h, 13 - r), std::min(w, 7 - c)}};
          const auto part = values(piece, box);
          for_each_run(whole(piece.shape), box, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
              ASSERT_EQ(part[static_cast<std::size_t>(local + i)], all[static_cast<std::size_t>(global + i)]);
          });
        }
}

TEST(InitialValues, TheWholeModelIsTheSameFromEveryLayout) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});
  std::map<std::string, std::vector<float>> reference;
  for (int tp : {1, 2, 4, 8}) {
    ParallelSpec parallel;
    parallel.tp = tp;
    std::map<std::string, std::vector<float>> gathered;
    for (const auto& c : place(parallel).coordinates)
      for (const auto& spec : param_specs(model, parallel, c))
        for (const auto& piece : spec.pieces) {
          auto& to = gathered[piece.name];
          to.resize(static_cast<std::size_t>(num_elements(piece.shape)));
          if (piece.box.empty()) continue;
          const auto mine = values(piece, piece.box);
          for_each_run(whole(piece.shape), piece.box, [&](std::int64_t g, std::int64_t l, std::int64_t n) {
            std::copy_n(mine.begin() + l, n, to.begin() + g);
          });
        }
    if (tp == 1) reference = gathered;
    EXPECT_EQ(gathered, reference) << "tp " << tp;
  }
}

TEST(InitialValues, FollowTheNormalLaw) {
  const std::int64_t n = 200'000;
  const double std = 0.02;
  auto v = values(normal_piece("embedding.word_embeddings.weight", {n / 100, 100}, std), {{0, 0}, {n / 100, 100}});
  double mean = 0, square = 0, cube = 0, fourth = 0, neighbours = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double z = static_cast<double>(v[i]) / std, dn = static_cast<double>(n);
    mean += z / dn, square += z * z / dn, cube += z * z * z / dn, fourth += z * z * z * z / dn;
    if (i > 0) neighbours += z * static_cast<double>(v[i - 1]) / std / dn;
  }
  // Five standard errors of each: 1, sqrt 2, sqrt 15, sqrt 96, 1 over sqrt n.
  const double error = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(mean, 0, error);
  EXPECT_NEAR(square, 1, error * 1.42);
  EXPECT_NEAR(cube, 0, error * 3.9);
  EXPECT_NEAR(fourth, 3, error * 9.8);
  EXPECT_NEAR(neighbours, 0, error) << "two elements share a block of random words";
  std::sort(v.begin(), v.end());
  double distance = 0;  // Kolmogorov and Smirnov
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-static_cast<double>(v[i]) / std / std::sqrt(2.0));
    distance = std::max({distance, cdf - static_cast<double>(i) / static_cast<double>(n),
                         static_cast<double>(i + 1) / static_cast<double>(n) - cdf});
  }
  EXPECT_LT(distance * std::sqrt(static_cast<double>(n)), 1.63) << "the 1 % point";
}

TEST(InitialValues, SeedsAndNamesGiveOtherValues) {
  const Piece a = normal_piece("a", {64}, 1), b = normal_piece("b", {64}, 1);
  const auto base = values(a, whole({64}), 1);
  for (const auto& other : {values(a, whole({64}), 2), values(b, whole({64}), 1), values(a, whole({64}), 1ull << 32)})
    for (std::size_t i = 0; i < 64; ++i) EXPECT_NE(base[i], other[i]) << i;
}

TEST(InitialValues, ElementsBeyond32BitsDoNotRepeat) {
  const Piece piece = normal_piece("big", {1 << 20, 1 << 16}, 1);  // 2^36 elements, of which a few are asked
  const auto first = values(piece, {{0, 0}, {1, 8}}), far = values(piece, {{1 << 17, 0}, {1, 8}});  // 2^33
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NE(first[i], far[i]);
}

TEST(InitialValues, OnesAndZerosAreExact) {
  Piece p = normal_piece("norm", {5}, 1);
  p.init = {Init::Kind::one, 0};
  EXPECT_EQ(values(p, {{1}, {3}}), std::vector<float>(3, 1.0f));
  p.init = {};
  EXPECT_EQ(values(p, {{0}, {5}}), std::vector<float>(5, 0.0f));
}

// Weights of every run of a seed: a change here is a change of all published results.
TEST(InitialValues, BitsAreThoseOfTheFirstRelease) {
  const Piece piece = normal_piece("embedding.word_embeddings.weight", {61, 32}, 0.02);
  const auto v = values(piece, whole(piece.shape), 1234);
  EXPECT_EQ(xxh3({reinterpret_cast<const char*>(v.data()), v.size() * 4}), 12582241676140577513ull);
}

}  // namespace
}  // namespace mt
