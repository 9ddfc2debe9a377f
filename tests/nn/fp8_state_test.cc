// Histories of magnitudes: what enters them, what is chosen, and how they come back.

#include "nn/fp8_state.h"

#include <gtest/gtest.h>

#include "layout/models.h"
#include "params/rank_params.h"

namespace mt {
namespace {

ModelSpec model_with(int history, bool most_recent) {
  ModelSpec m = test::small_model();
  Fp8Spec spec;
  spec.recipe = Fp8Spec::Recipe::delayed;
  spec.history = history;
  spec.most_recent = most_recent;
  use_fp8(m, spec);
  return m;
}

float& at(const View& v) { return *v.as<float>(); }

TEST(Fp8State, ChoosesTheMostRecentOrTheLargestOfItsHistory) {
  for (const bool recent : {true, false}) {
    test::on_ranks(1, [&](Communicator& world) {
      Stream stream;
      Fp8State s(model_with(2, recent), {});
      const auto used = [&] { return at(s.used(2, 1, Fp8Operand::dy)); };
      EXPECT_EQ(used(), 0.0f) << "nothing is known in the first step";
      const float seen[] = {5, 3, 1, std::numeric_limits<float>::infinity(), 2};
      const float largest[] = {5, 5, 3, 3, 2}, latest[] = {5, 3, 1, 1, 2};
      for (int i = 0; i < 5; ++i) {
        at(s.seen(2, 1, Fp8Operand::dy)) = seen[i];
        s.end_step(stream, world);
        EXPECT_EQ(used(), (recent ? latest : largest)[i]) << i;
        EXPECT_EQ(at(s.seen(2, 1, Fp8Operand::dy)), 0.0f);
      }
      EXPECT_EQ(at(s.used(2, 0, Fp8Operand::dy)), 0.0f) << "its neighbours are their own";
    });
  }
}

TEST(Fp8State, IsTheLargestOfAllRanks) {
  test::on_ranks(3, [&](Communicator& world) {
    Stream stream;
    Fp8State s(model_with(1, true), {});
    at(s.seen(1, 0, Fp8Operand::x)) = static_cast<float>(10 + world.rank());
    if (world.rank() == 1) at(s.seen(3, 1, Fp8Operand::weight)) = 7;
    s.end_step(stream, world);
    EXPECT_EQ(at(s.used(1, 0, Fp8Operand::x)), 12.0f);
    EXPECT_EQ(at(s.used(3, 1, Fp8Operand::weight)), 7.0f);
  });
}

TEST(Fp8State, ComesBackFromACheckpointWithALongerOrShorterHistory) {
  test::on_ranks(1, [&](Communicator& world) {
    Stream stream;
    Fp8State a(model_with(3, false), {}), same(model_with(3, false), {}), shorter(model_with(1, true), {});
    for (const float f : {8.0f, 4.0f, 2.0f}) {
      at(a.seen(4, 0, Fp8Operand::weight)) = f;
      a.end_step(stream, world);
    }
    same.restore(stream, a.state());
    shorter.restore(stream, a.state());
    EXPECT_EQ(same.state(), a.state());
    EXPECT_EQ(at(same.used(4, 0, Fp8Operand::weight)), 8.0f);
    EXPECT_EQ(at(shorter.used(4, 0, Fp8Operand::weight)), 2.0f);
    EXPECT_EQ(a.state()["decoder.layers.1.mlp.0.weight"], (Json{2.0f, 4.0f, 8.0f}));
    a.restore(stream, Json{{"decoder.layers.9.mlp.0.weight", {1.0f}}});
    EXPECT_EQ(same.state(), a.state()) << "what is not here is nothing";
  });
}

}  // namespace
}  // namespace mt
