// Moments in bf16, f16 and e4m3: the same in every layout, near f32's, and as many bytes as they say.

#include <cmath>

#include <gtest/gtest.h>

#include "optim/shard_values.h"

namespace mt {
namespace {

using test::RankParams;
using test::Tensors;

struct Moments {
  DType first, second;
};
constexpr Moments kMoments[] = {{DType::bf16, DType::bf16}, {DType::e4m3, DType::f16}, {DType::f16, DType::e4m3},
                                {DType::f32, DType::e4m3}};

OptimizerOptions options_of(const Moments& m) {
  OptimizerOptions o;
  o.adam.beta2 = 0.95;
  o.adam.exp_avg = m.first;
  o.adam.exp_avg_sq = m.second;
  return o;
}

struct Layout {
  int tp, dp, zero;
};

constexpr double kLr = 1e-3;
constexpr int kSteps = 4;

Tensors after_steps(const OptimizerOptions& o, const ModelSpec& model, const Layout& l) {
  Tensors out;
  test::on_ranks(l.tp * l.dp, [&](Communicator& world) {
    RankParams r(world, model, test::layout(l.tp, l.dp, false, l.zero), DType::bf16,
                 l.dp == 3 ? Stream::Mode::deferred : Stream::Mode::immediate);
    Optimizer optimizer(r.store, o, {});
    optimizer.initialize(r.stream, r.groups, 5);
    for (int step = 0; step < kSteps; ++step) {
      test::set_gradients(r, step);
      (void)optimizer.step(r.stream, r.groups, kLr, 0.1);
      r.stream.synchronize();
    }
    test::gather(r, optimizer, "master", out);
  });
  return out;
}

TEST(Moments, EqualGradientsGiveEqualBitsInEveryLayout) {
  for (const bool llama : {false, true}) {
    const ModelSpec model = test::small_model({llama, 8, 2, 61});
    for (const Moments& m : kMoments) {
      const Tensors one = after_steps(options_of(m), model, {1, 1, 1});
      for (const Layout& l : {Layout{2, 2, 1}, {1, 3, 3}, {4, 2, 2}})
        EXPECT_TRUE(after_steps(options_of(m), model, l) == one)
            << dtype_name(m.first) << " " << dtype_name(m.second) << " tp " << l.tp << " dp " << l.dp;
    }
  }
}

// A step is at most about lr; rounding the moments changes a small part of it.
TEST(Moments, OfFewBitsStayNearThoseOfF32) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});
  const Tensors exact = after_steps(options_of({DType::f32, DType::f32}), model, {1, 1, 1});
  for (const Moments& m : kMoments) {
    const Tensors rounded = after_steps(options_of(m), model, {1, 1, 1});
    double worst = 0, mean = 0;
    std::size_t n = 0;
    for (const auto& [name, values] : rounded)
      for (std::size_t i = 0; i < values.size(); ++i, ++n) {
        const double off = std::abs(static_cast<double>(values[i]) - static_cast<double>(exact.at(name)[i]));
        worst = std::max(worst, off);
        mean += off;
      }
    const bool fp8 = m.first == DType::e4m3 || m.second == DType::e4m3;
    EXPECT_GT(mean, 0) << "they are rounded";
    EXPECT_LT(mean / static_cast<double>(n), (fp8 ? 0.05 : 0.005) * kLr * kSteps) << dtype_name(m.first);
    EXPECT_LT(worst, (fp8 ? 0.5 : 0.05) * kLr * kSteps) << dtype_name(m.first) << " " << dtype_name(m.second);
  }
}

TEST(Moments, TakeTheBytesTheirDtypesSay) {
  test::on_ranks(1, [](Communicator& world) {
    RankParams r(world, test::small_model(), {}, DType::bf16);
    std::size_t padded = 0;
    for (const auto& s : r.store.specs()) padded += static_cast<std::size_t>((s.elements() + 63) / 64 * 64);
    const auto bytes = [&](DType first, DType second) { return Optimizer(r.store, options_of({first, second}), {}).state_bytes(); };
    EXPECT_EQ(bytes(DType::bf16, DType::bf16), padded * 8);
    EXPECT_EQ(bytes(DType::e4m3, DType::f16), padded * 7);
    EXPECT_EQ(bytes(DType::e4m3, DType::e4m3), padded * 6);
    EXPECT_EQ(bytes(DType::f32, DType::bf16), padded * 10);
  });
}

TEST(Moments, ScalesArePowersOfTwoOfEveryTensorThatHasThem) {
  test::on_ranks(2, [](Communicator& world) {
    RankParams r(world, test::small_model({true, 8, 2, 61}), test::layout(2, 1), DType::bf16);
    Optimizer optimizer(r.store, options_of({DType::e4m3, DType::bf16}), {});
    optimizer.initialize(r.stream, r.groups, 5);
    for (const auto& s : optimizer.scales()) EXPECT_EQ(*s.value, 1.0f);
    test::set_gradients(r, 3);
    (void)optimizer.step(r.stream, r.groups, kLr, 0.1);
    std::size_t pieces = 0;
    for (const auto& s : r.store.specs()) pieces += s.pieces.size();
    EXPECT_EQ(optimizer.scales().size(), pieces) << "the first moment's alone";
    for (const auto& s : optimizer.scales()) {
      EXPECT_EQ(s.kind, "exp_avg_scale");
      int exponent = 0;
      EXPECT_EQ(std::frexp(*s.value, &exponent), 0.5f) << s.name;
      EXPECT_LT(*s.value, 1.0f);
    }
  });
}

}  // namespace
}  // namespace mt
