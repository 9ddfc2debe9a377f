// Histories of magnitudes: what enters them, what is chosen, and how they come back.

#include "nn/fp8_state.h"

#include <gtest/gtest.h>

#include "comm/device_ranks.h"
#include "layout/models.h"

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

float at(Stream& stream, const View& v) { return test::element<float>(stream, v); }
void set(Stream& stream, const View& v, float value) { upload_bytes(stream, v.data, &value, sizeof value); }

TEST(Fp8State, ChoosesTheMostRecentOrTheLargestOfItsHistory) {
  for (const bool recent : {true, false}) {
    test::on_device_ranks(1, [&](Communicator& world) {
      const Device device = test::rank_device(world);
      Stream stream(device);
      Fp8State s(model_with(2, recent), device);
      const auto used = [&] { return at(stream, s.used(2, 1, Fp8Operand::dy)); };
      EXPECT_EQ(used(), 0.0f) << "nothing is known in the first step";
      const float seen[] = {5, 3, 1, std::numeric_limits<float>::infinity(), 2};
      const float largest[] = {5, 5, 3, 3, 2}, latest[] = {5, 3, 1, 1, 2};
      for (int i = 0; i < 5; ++i) {
        set(stream, s.seen(2, 1, Fp8Operand::dy), seen[i]);
        s.end_step(stream, world);
        EXPECT_EQ(used(), (recent ? latest : largest)[i]) << i;
        EXPECT_EQ(at(stream, s.seen(2, 1, Fp8Operand::dy)), 0.0f);
      }
      EXPECT_EQ(at(stream, s.used(2, 0, Fp8Operand::dy)), 0.0f) << "its neighbours are their own";
    });
  }
}

TEST(Fp8State, IsTheLargestOfAllRanks) {
  test::on_device_ranks(3, [&](Communicator& world) {
    const Device device = test::rank_device(world);
    Stream stream(device);
    Fp8State s(model_with(1, true), device);
    set(stream, s.seen(1, 0, Fp8Operand::x), static_cast<float>(10 + world.rank()));
    if (world.rank() == 1) set(stream, s.seen(3, 1, Fp8Operand::weight), 7);
    s.end_step(stream, world);
    EXPECT_EQ(at(stream, s.used(1, 0, Fp8Operand::x)), 12.0f);
    EXPECT_EQ(at(stream, s.used(3, 1, Fp8Operand::weight)), 7.0f);
  });
}

TEST(Fp8State, ComesBackFromACheckpointWithALongerOrShorterHistory) {
  test::on_device_ranks(1, [&](Communicator& world) {
    const Device device = test::rank_device(world);
    Stream stream(device);
    Fp8State a(model_with(3, false), device), same(model_with(3, false), device), shorter(model_with(1, true), device);
    for (const float f : {8.0f, 4.0f, 2.0f}) {
      set(stream, a.seen(4, 0, Fp8Operand::weight), f);
      a.end_step(stream, world);
    }
    same.restore(stream, a.state(stream));
    shorter.restore(stream, a.state(stream));
    EXPECT_EQ(same.state(stream), a.state(stream));
    EXPECT_EQ(at(stream, same.used(4, 0, Fp8Operand::weight)), 8.0f);
    EXPECT_EQ(at(stream, shorter.used(4, 0, Fp8Operand::weight)), 2.0f);
    EXPECT_EQ(a.state(stream)["decoder.layers.1.mlp.0.weight"], (Json{2.0f, 4.0f, 8.0f}));
    a.restore(stream, Json{{"decoder.layers.9.mlp.0.weight", {1.0f}}});
    EXPECT_EQ(same.state(stream), a.state(stream)) << "what is not here is nothing";
  });
}

}  // namespace
}  // namespace mt
