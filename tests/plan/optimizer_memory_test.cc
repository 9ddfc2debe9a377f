// Predicted bytes of optimizer state against what each update rule really allocates.

#include "plan/optimizer_memory.h"

#include <gtest/gtest.h>

#include "engine/rank_state.h"

namespace mt {
namespace {

struct Layout {
  int tp, dp, zero;
};

void expect_as_planned(const OptimizerOptions& o, const Layout& l, DType compute, bool exact) {
  test::on_ranks(l.tp * l.dp, [&](Communicator& world) {
    const auto parallel = test::layout(l.tp, l.dp, false, l.zero);
    test::RankParams r(world, test::small_model({true, 8, 2, 61}), parallel, compute);
    Optimizer optimizer(r.store, o, {});
    optimizer.initialize(r.stream, r.groups, 1);
    const auto planned = optimizer_bytes(r.store.specs(), parallel, r.groups.coordinate, o.state(compute));
    const auto held = static_cast<std::int64_t>(optimizer.state_bytes() + optimizer.buffer_bytes());
    if (exact) {
      EXPECT_EQ(planned, held) << update_rule_name(o.rule) << " tp " << l.tp << " dp " << l.dp << " zero " << l.zero;
    } else {
      EXPECT_GE(planned, held);
      EXPECT_LE(static_cast<double>(planned), 1.1 * static_cast<double>(held) + 12 * 64 * 8 * l.dp);
    }
  });
}

TEST(OptimizerMemory, IsWhatEachRuleAllocates) {
  for (const UpdateRule rule : {UpdateRule::adam, UpdateRule::sgd, UpdateRule::lion, UpdateRule::muon})
    for (const DType compute : {DType::f32, DType::bf16})
      for (const Layout& l : {Layout{1, 1, 0}, {2, 1, 0}, {1, 2, 0}, {4, 2, 0}, {1, 2, 1}, {2, 3, 1}, {2, 2, 3}}) {
        OptimizerOptions o;
        o.rule = rule;
        expect_as_planned(o, l, compute, l.zero == 0 || rule == UpdateRule::muon);
      }
  OptimizerOptions o;
  o.adam.exp_avg = DType::e4m3;
  o.adam.exp_avg_sq = DType::bf16;
  expect_as_planned(o, {2, 1, 0}, DType::bf16, true);
  expect_as_planned(o, {1, 2, 1}, DType::bf16, false);
  o.rule = UpdateRule::sgd;
  o.sgd_momentum = 0;
  expect_as_planned(o, {1, 1, 0}, DType::f32, true);
  o.rule = UpdateRule::muon;
  o.muon.blockwise = true;
  o.muon.split_qkv = false;
  for (const Layout& l : {Layout{2, 1, 0}, {4, 2, 2}}) expect_as_planned(o, l, DType::bf16, true);
}

}  // namespace
}  // namespace mt
