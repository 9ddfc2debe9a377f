// Buffers, slots and sums of gradients, against what each logical element must add up to.

#include "params/parameter_store.h"

#include <gtest/gtest.h>

#include "params/rank_params.h"

namespace mt {
namespace {

using test::RankParams;

TEST(ParameterStore, ViewsHaveTheTablesShapesAndDoNotOverlap) {
  test::on_ranks(1, [](Communicator& world) {
    RankParams r(world, test::small_model({false, 8, 2, 61}), {}, DType::bf16);
    std::vector<std::pair<const std::byte*, std::size_t>> ranges;
    for (int p = 0; p < r.store.num_params(); ++p) {
      const auto& spec = r.store.spec(p);
      EXPECT_EQ(r.store.find(spec.name), p);
      std::vector<View> views = {r.store.weight(p)};
      for (int slot = 0; slot < spec.grad_slots; ++slot) views.push_back(r.store.grad(p, slot));
      for (const View& v : views) {
        ASSERT_EQ(v.num_dims(), static_cast<int>(spec.shape.size())) << spec.name;
        for (int d = 0; d < v.num_dims(); ++d) EXPECT_EQ(v.dim(d), spec.shape[static_cast<std::size_t>(d)]);
        EXPECT_TRUE(v.contiguous());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(v.data) % 64, 0u) << spec.name;
        for (std::size_t i = 0; i < v.bytes(); ++i)
          ASSERT_EQ(static_cast<std::byte*>(v.data)[i], std::byte{0}) << "memory starts as zeros";
        ranges.emplace_back(static_cast<std::byte*>(v.data), v.bytes());
      }
      EXPECT_EQ(views[0].dtype, DType::bf16);
      EXPECT_EQ(views[1].dtype, DType::f32);
    }
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
    EXPECT_EQ(r.store.find("decoder.layers.9.mlp.linear_fc1.weight"), -1);
    EXPECT_EQ(r.store.units(), (std::vector{0, 1, 2, 3, 4, 5}));
  });
}

TEST(ParameterStore, ScoringHoldsNoGradients) {
  const auto specs = param_specs(test::small_model(), {}, {});
  const ParameterStore store(specs, DType::f32, {}, ParameterStore::Gradients::absent);
  EXPECT_EQ(store.grad_bytes(), 0u);
  EXPECT_GT(store.weight_bytes(), 0u);
  EXPECT_DEATH((void)store.grad(0), "slot");
}

TEST(ParameterStore, PieceViewsAreThePiecesRows) {
  const ParameterStore store(param_specs(test::small_model({true, 8, 2, 61}), test::layout(2, 1), {}), DType::f32, {});
  const int p = store.find("decoder.layers.0.self_attention.linear_qkv.weight");
  const View w = store.weight(p);
  for (std::int64_t i = 0; i < w.size(); ++i) w.as<float>()[i] = static_cast<float>(i);
  std::int64_t row = 0;
  for (const auto& piece : store.spec(p).pieces) {
    const View v = piece_view(w, piece);
    EXPECT_EQ(v.dim(0), piece.box.extent[0]);
    EXPECT_EQ(v.as<float>()[0], static_cast<float>(row * 32)) << piece.name;
    row += v.dim(0);
  }
  EXPECT_EQ(row, w.dim(0));
}

struct Case {
  int tp, dp;
  bool sequence_parallel, llama;
  int kv_heads;
  Stream::Mode mode;
};

class Reduction : public testing::TestWithParam<Case> {};

// What rank adds to a logical element: small integers, so that sums are exact in any order.
float addend(std::int64_t element, int rank, int slot) {
  return static_cast<float>((element * 7 + rank * 13 + slot * 5) % 31 + 1);
}

// Each rank's gradient of an element must become the sum over dp, over the axes its gradient is partial on, and over
// the two sides of a tied embedding; and of nothing else.
TEST_P(Reduction, SumsEachElementOverExactlyItsAxesAndSlots) {
  const Case& c = GetParam();
  const ModelSpec model = test::small_model({c.llama, 8, c.kv_heads, 61});
  const ParallelSpec parallel = test::layout(c.tp, c.dp, c.sequence_parallel);
  test::on_ranks(c.tp * c.dp, [&](Communicator& world) {
    RankParams r(world, model, parallel, DType::f32, c.mode);
    for (int round = 0; round < 2; ++round) {  // the second finds the buffers used
      r.store.zero_grads(r.stream);
      r.stream.synchronize();
      for (int p = 0; p < r.store.num_params(); ++p)
        for (int slot = 0; slot < r.store.spec(p).grad_slots; ++slot)
          for (const auto& piece : r.store.spec(p).pieces)
            test::for_each_element(r.store.grad(p, slot), piece, [&](std::int64_t e, std::byte* at) {
              *reinterpret_cast<float*>(at) = addend(e, world.rank() + round, slot);
            });
      const auto& units = r.store.units();
      for (auto u = units.rbegin(); u != units.rend(); ++u) r.store.reduce(r.stream, r.groups, *u);
      r.store.finish_reduce(r.stream, r.groups);
      r.stream.synchronize();
      for (int p = 0; p < r.store.num_params(); ++p)
        for (const auto& piece : r.store.spec(p).pieces) {
          std::vector<Axis> axes{Axis::dp, Axis::cp};
          bool over_kv = false;
          for (Axis a : piece.grad_sum) {
            if (a == Axis::tp) axes.push_back(a);
            over_kv = over_kv || a == Axis::kv;
          }
          std::vector<int> ranks = group_of(r.groups.placement, axes, world.rank());
          if (over_kv) {
            std::vector<int> more;
            for (int rank : ranks)
              for (int k : kv_group(r.groups.placement, c.kv_heads, rank)) more.push_back(k);
            ranks = more;
          }
          std::int64_t wrong = 0;
          test::for_each_element(r.store.grad(p), piece, [&](std::int64_t e, std::byte* at) {
            float want = 0;
            for (int slot = 0; slot < r.store.spec(p).grad_slots; ++slot)
              for (int rank : ranks) want += addend(e, rank + round, slot);
            wrong += *reinterpret_cast<float*>(at) != want;
          });
          EXPECT_EQ(wrong, 0) << piece.name << " rank " << world.rank() << " round " << round;
        }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Reduction,
    testing::Values(Case{1, 1, false, false, 8, Stream::Mode::immediate}, Case{1, 3, false, false, 2, Stream::Mode::immediate},
                    Case{2, 1, true, false, 8, Stream::Mode::immediate}, Case{4, 1, false, true, 2, Stream::Mode::immediate},
                    Case{4, 1, true, true, 1, Stream::Mode::deferred}, Case{4, 2, true, false, 2, Stream::Mode::immediate},
                    Case{8, 1, false, true, 2, Stream::Mode::immediate}, Case{2, 2, true, true, 1, Stream::Mode::deferred}));

}  // namespace
}  // namespace mt
