// Newton-Schulz against plain loops in double, and that its singular values are near 1.

#include "optim/newton_schulz.h"

#include <random>

#include <gtest/gtest.h>

#include "optim/orthogonal_reference.h"
#include "tensor/tensor.h"

namespace mt {
namespace {

using test::Matrix;

Matrix random_matrix(int rows, int cols, unsigned seed) {
  Matrix m(rows, cols);
  std::mt19937 random(seed);
  std::normal_distribution<double> dist(0, 0.01);
  for (double& e : m.v) e = static_cast<double>(static_cast<float>(dist(random)));
  return m;
}

Matrix run(const Matrix& m, const NewtonSchulz& iteration, float factor, int threads, Stream::Mode mode) {
  Stream stream({}, threads, mode);
  Tensor x({}, DType::f32, {m.rows, m.cols}), scratch({}, DType::f32, {newton_schulz_scratch(m.rows, m.cols)});
  for (std::size_t i = 0; i < m.v.size(); ++i) x.view().as<float>()[i] = static_cast<float>(m.v[i]);
  newton_schulz(stream, x, scratch, iteration, factor);
  stream.synchronize();
  Matrix out(m.rows, m.cols);
  for (std::size_t i = 0; i < m.v.size(); ++i) out.v[i] = static_cast<double>(x.view().as<float>()[i]);
  return out;
}

TEST(NewtonSchulz, FollowsPlainLoopsInDouble) {
  using C = NewtonSchulz::Coefficients;
  for (const auto& [rows, cols] : {std::pair{24, 24}, {16, 60}, {70, 33}, {1, 12}, {12, 1}})
    for (const C coefficients : {C::quintic, C::simple})
      for (const int steps : {5, 10}) {
        const Matrix m = random_matrix(rows, cols, static_cast<unsigned>(rows + steps));
        const Matrix want = test::newton_schulz_in_double(m, steps, coefficients == C::simple);
        const Matrix got = run(m, {coefficients, steps}, 2.5f, 1, Stream::Mode::immediate);
        double worst = 0;
        for (std::size_t i = 0; i < m.v.size(); ++i) worst = std::max(worst, std::abs(got.v[i] - 2.5 * want.v[i]));
        EXPECT_LT(worst, 2e-4) << rows << " by " << cols << ", " << steps << " steps";
      }
}

TEST(NewtonSchulz, BringsSingularValuesNearOne) {
  const Matrix x = run(random_matrix(32, 80, 3), {}, 1, 1, Stream::Mode::immediate);
  const Matrix gram = test::times(x, test::transposed(x));
  for (int i = 0; i < gram.rows; ++i) {
    EXPECT_NEAR(gram.at(i, i), 1, 0.35) << i;
    for (int j = 0; j < i; ++j) EXPECT_NEAR(gram.at(i, j), 0, 0.2) << i << " " << j;
  }
}

TEST(NewtonSchulz, GivesTheSameBitsForAnyNumberOfThreadsAndOnADeferredStream) {
  const Matrix m = random_matrix(200, 150, 9);
  const auto one = run(m, {}, 1, 1, Stream::Mode::immediate).v;
  EXPECT_EQ(one, run(m, {}, 1, 2, Stream::Mode::immediate).v);
  EXPECT_EQ(one, run(m, {}, 1, 3, Stream::Mode::immediate).v);
  EXPECT_EQ(one, run(m, {}, 1, 1, Stream::Mode::deferred).v);
}

TEST(NewtonSchulz, OfNothingIsNothing) {
  for (double e : run(Matrix(8, 12), {}, 1, 1, Stream::Mode::immediate).v) EXPECT_EQ(e, 0);
}

TEST(NewtonSchulz, QuinticCoefficientsWantTheirNumberOfSteps) {
  using C = NewtonSchulz::Coefficients;
  EXPECT_TRUE(fits({C::quintic, 5}));
  EXPECT_TRUE(fits({C::quintic, 10}));
  EXPECT_FALSE(fits({C::quintic, 6}));
  EXPECT_TRUE(fits({C::simple, 6}));
  EXPECT_FALSE(fits({C::simple, 0}));
}

}  // namespace
}  // namespace mt
