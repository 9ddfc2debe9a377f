#include "layout/host_state.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

ShardPlan plan_of(const std::vector<std::int64_t>& sizes) {
  ShardPlan plan;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    plan.shards.push_back({static_cast<int>(i), 0, sizes[i], plan.state});
    plan.state += sizes[i];
  }
  return plan;
}

TEST(HostState, ShardsAreTakenInOrderUntilTheShareIsReached) {
  const ShardPlan plan = plan_of({100, 10, 60, 30});
  StateSpec state(DType::bf16);
  const auto taken = [&](double share) {
    state.on_host = share;
    return shards_on_host(plan, state);
  };
  using V = std::vector<bool>;
  EXPECT_EQ(taken(0), (V{false, false, false, false}));
  EXPECT_EQ(taken(0.01), (V{true, false, false, false}));
  EXPECT_EQ(taken(0.5), (V{true, false, false, false})) << "100 of 200 are half";
  EXPECT_EQ(taken(0.51), (V{true, true, false, false}));
  EXPECT_EQ(taken(0.56), (V{true, true, true, false}));
  EXPECT_EQ(taken(1), (V{true, true, true, true}));
  EXPECT_TRUE(shards_on_host({}, state).empty());
}

TEST(HostState, ASlotHoldsTheLargestPieceThatThereIs) {
  const ShardPlan plan = plan_of({100, 10, 60, 3000});
  StateSpec state(DType::bf16);
  EXPECT_EQ(host_slot(plan, state).bytes(), 0);
  state.on_host = 0.01;
  EXPECT_EQ(host_slot(plan, state).elements, 100);
  EXPECT_EQ(host_slot(plan, state).grad_bytes, 448);    // 4 bytes each, whole lines
  EXPECT_EQ(host_slot(plan, state).weight_bytes, 256);  // 2
  state.on_host = 1;
  state.grads = DType::bf16;
  EXPECT_EQ(host_slot(plan, state).elements, 3000);
  EXPECT_EQ(host_slot(plan, state, 1000).elements, 1000);
  EXPECT_EQ(host_slot(plan, state, 1000).bytes(), 2 * 2048);
}

}  // namespace
}  // namespace mt
