// Predicted bytes against what parameter store, optimizer and executor really hold, in every kind of layout.

#include "plan/memory.h"

#include <gtest/gtest.h>

#include "engine/executor.h"
#include "engine/rank_state.h"

namespace mt {
namespace {

struct Case {
  int tp, dp;
  bool sequence_parallel, llama;
  int kv_heads;
  DType dtype;
};

class Plan : public testing::TestWithParam<Case> {};

TEST_P(Plan, ParametersGradientsAndOptimizerAreExactToTheByte) {
  const Case& c = GetParam();
  const ModelSpec model = test::small_model({c.llama, 8, c.kv_heads, 61});
  const auto parallel = test::layout(c.tp, c.dp, c.sequence_parallel);
  test::on_ranks(c.tp * c.dp, [&](Communicator& world) {
    test::RankState r(world, model, parallel, c.dtype);
    const MemoryPlan plan = plan_memory(model, parallel, {16, 2, 4 * c.dp}, r.groups.coordinate, c.dtype, 1);
    EXPECT_EQ(plan.weight_bytes, static_cast<std::int64_t>(r.store.weight_bytes()));
    EXPECT_EQ(plan.optimizer_bytes, static_cast<std::int64_t>(r.optimizer.state_bytes()));
    std::int64_t partial = 0;  // the store's scratch for sums over tp and kv, the largest of any unit
    for (int unit : r.store.units()) {
      std::int64_t here = 0;
      for (const auto& spec : r.store.specs())
        for (const auto& piece : spec.pieces)
          if (spec.unit == unit && !piece.grad_sum.empty()) here += (piece.box.size() + 63) / 64 * 64 * 4;
      partial = std::max(partial, here);
    }
    EXPECT_EQ(plan.grad_bytes, static_cast<std::int64_t>(r.store.grad_bytes()) + partial);
  });
}

TEST_P(Plan, ArenasOfAStepHoldWhatWasPlanned) {
  const Case& c = GetParam();
  const ModelSpec model = test::small_model({c.llama, 8, c.kv_heads, 61});
  const auto parallel = test::layout(c.tp, c.dp, c.sequence_parallel);
  test::on_ranks(c.tp * c.dp, [&](Communicator& world) {
    test::RankParams r(world, model, parallel, c.dtype);
    const BatchSpec shape{16, 2, 4 * c.dp};
    const Model net(model, shape, r.groups, r.store, 0, {});
    Executor executor(ExecutorParts{r.stream, r.groups, r.store, 1}, net, shape, {});
    HostBatch b;
    b.cu_seqlens = {0, 16, 32};
    for (int t = 0; t < 32; ++t) {
      b.ids.push_back(t), b.labels.push_back(t + 1), b.mask.push_back(1), b.ordinals.push_back(t / 16);
      b.positions.push_back(t % 16);
    }
    for (const auto& [lane, in_flight] : {std::pair{one_f_one_b(1, 2).lanes[0], 1}, {gpipe(1, 2).lanes[0], 2}}) {
      (void)executor.run_lane(lane, {b, b}, 1.0, {});
      const MemoryPlan plan = plan_memory(model, parallel, shape, r.groups.coordinate, c.dtype, in_flight);
      const auto used = executor.memory();
      EXPECT_EQ(static_cast<std::int64_t>(used.slots), plan.slots * plan.slot_bytes) << in_flight << " in flight";
      EXPECT_EQ(static_cast<std::int64_t>(used.scratch), plan.scratch_bytes);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Plan,
                         testing::Values(Case{1, 1, false, false, 8, DType::f32}, Case{1, 2, false, true, 2, DType::bf16},
                                         Case{2, 1, false, true, 1, DType::f32}, Case{2, 1, true, false, 2, DType::bf16},
                                         Case{4, 1, true, true, 2, DType::f32}, Case{8, 1, true, false, 2, DType::f32}));

TEST(MemoryPlan, TheTotalAddsUp) {
  const MemoryPlan plan{1, 2, 3, 10, 4, 5, 6};
  EXPECT_EQ(plan.total(), 1 + 2 + 3 + 4 * 10 + 5 + 6);
}

}  // namespace
}  // namespace mt
