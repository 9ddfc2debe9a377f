// Predicted bytes against what parameter store, optimizer and executor really hold, in every kind of layout.

#include "plan/memory.h"

#include <atomic>

#include <gtest/gtest.h>

#include "engine/executor.h"
#include "engine/rank_state.h"
#include "schedule/passes.h"

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
    ExecutorParts parts{r.stream, r.groups, r.store, 1};
    Executor plain(parts, net, shape, {});
    parts.tp_overlap = {true, true, true, true, true};  // takes no more
    Executor overlapped(parts, net, shape, {});
    HostBatch b;
    b.cu_seqlens = {0, 16, 32};
    for (int t = 0; t < 32; ++t) {
      b.ids.push_back(t), b.labels.push_back(t + 1), b.mask.push_back(1), b.ordinals.push_back(t / 16);
      b.positions.push_back(t % 16);
    }
    for (const auto& [lane, in_flight] : {std::pair{one_f_one_b(1, 2).lanes[0], 1}, {gpipe(1, 2).lanes[0], 2}})
      for (Executor* executor : {&plain, &overlapped}) {
        (void)executor->run_lane(lane, {b, b}, 1.0, {});
        const MemoryPlan plan = plan_memory(model, parallel, shape, r.groups.coordinate, c.dtype, in_flight);
        const auto used = executor->memory();
        EXPECT_EQ(static_cast<std::int64_t>(used.slots), plan.slots * plan.slot_bytes) << in_flight << " in flight";
        EXPECT_EQ(static_cast<std::int64_t>(used.scratch), plan.scratch_bytes);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Plan,
                         testing::Values(Case{1, 1, false, false, 8, DType::f32}, Case{1, 2, false, true, 2, DType::bf16},
                                         Case{2, 1, false, true, 1, DType::f32}, Case{2, 1, true, false, 2, DType::bf16},
                                         Case{4, 1, true, true, 2, DType::f32}, Case{8, 1, true, false, 2, DType::f32}));

// ---- pipelines and recompute: every stage within two per cent ----------------------------------------------------

struct Stages {
  int pp, vpp;
  const char* schedule;
  int zero = 0;  // with two data-parallel ranks
};

class PlanOfStages : public testing::TestWithParam<Stages> {};

HostBatch some_batch(int sequences, int length) {
  HostBatch b;
  b.cu_seqlens = {0};
  for (int s = 0; s < sequences; ++s) {
    b.cu_seqlens.push_back((s + 1) * length);
    for (int t = 0; t < length; ++t) {
      b.ids.push_back(t), b.labels.push_back(t + 1), b.mask.push_back(1), b.ordinals.push_back(s);
      b.positions.push_back(t);
    }
  }
  return b;
}

std::vector<RecomputeSpec> recompute_ways() {
  using G = RecomputeSpec::Granularity;
  using M = RecomputeSpec::Method;
  return {{},
          {G::selective, M::uniform, 1, true, false, true, false, false},
          {G::selective, M::uniform, 1, false, true, false, false, false},
          {G::full, M::uniform, 1, false, false, false, false, false},
          {G::full, M::uniform, 2, false, false, false, false, false},
          {G::full, M::block, 1, false, false, false, false, false},
          {G::full, M::uniform, 1, false, false, false, false, true},
          {G::full, M::block, 1, false, false, false, false, true}};
}

void expect_stage_as_planned(Communicator& world, const ModelSpec& model, const ParallelSpec& parallel,
                             const Schedule& schedule, std::atomic<std::int64_t>& planned) {
  test::RankState r(world, model, parallel, DType::bf16);
  const BatchSpec shape{64, 2, 2 * schedule.num_micro_batches * parallel.dp};
  std::vector<std::unique_ptr<Model>> models;
  std::vector<const Model*> chunks;
  for (int c = 0; c < parallel.vpp; ++c) {
    models.push_back(std::make_unique<Model>(model, shape, r.groups, r.store, c, Device{}));
    chunks.push_back(models.back().get());
  }
  const Lane& lane = schedule.lanes[static_cast<std::size_t>(r.groups.coordinate.pp)];
  const MemoryPlan plan = plan_memory(model, parallel, shape, r.groups.coordinate, DType::bf16, lane);
  const std::int64_t scratch = std::max(plan.scratch_bytes, plan.forward_only_scratch_bytes);
  Executor executor(ExecutorParts{r.stream, r.groups, r.store, 1, plan.arenas, static_cast<std::size_t>(scratch)}, chunks,
                    shape, {});
  const std::vector<HostBatch> batches(static_cast<std::size_t>(schedule.num_micro_batches), some_batch(2, 64));
  (void)executor.run_lane(lane, batches, 1.0, {});
  const auto used = executor.memory();
  EXPECT_EQ(static_cast<std::int64_t>(used.slots + used.kept + used.recompute), plan.activation_bytes);
  EXPECT_EQ(static_cast<std::int64_t>(used.scratch), plan.scratch_bytes);
  EXPECT_EQ(static_cast<std::int64_t>(r.store.bucket_bytes()), plan.bucket_bytes);
  const double states = static_cast<double>(plan.weight_bytes + plan.grad_bytes + plan.bucket_bytes + plan.optimizer_bytes);
  EXPECT_NEAR((static_cast<double>(used.total()) + states) / static_cast<double>(plan.total()), 1, 0.02);
  // Validation: in the same scratch, more of it where logits and all a layer saves are more than a backward takes.
  (void)executor.score(some_batch(2, 64));
  EXPECT_EQ(static_cast<std::int64_t>(executor.memory().scratch), scratch);
  EXPECT_EQ(static_cast<std::int64_t>(r.store.bucket_bytes()), plan.bucket_bytes);
  planned += plan.total() - plan.scratch_bytes + scratch;
}

TEST_P(PlanOfStages, IsWhatEveryStageUses) {
  const Stages& c = GetParam();
  auto options = test::small_options({true, 8, 2, 500});
  options.num_layers = 8;
  options.hidden_size = 64;
  options.ffn_hidden_size = 128;
  options.max_position_embeddings = 64;
  int way = 0;
  for (const RecomputeSpec& recompute : recompute_ways()) {
    if (c.zero > 0 && c.pp > 1 && way != 0 && way != 1 && way != 4 && way != 5) {  // many ranks: some of each kind
      ++way;
      continue;
    }
    options.fp32_residual_connection = way % 3 == 2;
    options.untie_embeddings_and_output_weights = c.zero == 0 || way % 2 == 0;
    const ModelSpec model = build_model(options, 500);
    SCOPED_TRACE("recompute " + std::to_string(way++));
    ParallelSpec parallel;
    parallel.pp = c.pp;
    parallel.vpp = c.vpp;
    parallel.zero_stage = c.zero;
    parallel.dp = c.zero > 0 ? 2 : 1;
    parallel.v_shape = std::string(c.schedule).ends_with("-v");
    parallel.tp = recompute.distribute_saved ? 2 : 1;
    parallel.recompute = recompute;
    ScheduleSpec spec;
    spec.pp = c.pp, spec.num_micro_batches = 8, spec.chunks = c.vpp > 1 ? c.vpp : 0;
    Schedule schedule = insert_communication(make_schedule(c.schedule, spec));
    if (recompute.on())
      for (int r = 0; r < c.pp; ++r) schedule = insert_recompute(schedule, {r});
    std::atomic<std::int64_t> planned{0};
    const std::size_t before = live_buffer_bytes();
    reset_peak_buffer_bytes();
    test::on_ranks(parallel.world(), [&](Communicator& world) {
      expect_stage_as_planned(world, model, parallel, schedule, planned);
    });
    // And every buffer there was, counted where they are made.
    EXPECT_NEAR(static_cast<double>(peak_buffer_bytes() - before) / static_cast<double>(planned), 1, 0.02);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PlanOfStages,
                         testing::Values(Stages{1, 1, "1f1b"}, Stages{2, 1, "1f1b"}, Stages{4, 1, "1f1b"}, Stages{2, 2, "interleaved"},
                                         Stages{4, 2, "interleaved"}, Stages{2, 1, "zb-h1"}, Stages{4, 1, "zb-h1"}));
INSTANTIATE_TEST_SUITE_P(Zero, PlanOfStages,
                         testing::Values(Stages{1, 1, "1f1b", 1}, Stages{1, 1, "1f1b", 2}, Stages{2, 1, "1f1b", 3}, Stages{1, 1, "1f1b", 3},
                                         Stages{2, 2, "interleaved", 3}, Stages{2, 1, "zb-h1", 2}, Stages{2, 1, "zb-h1", 3},
                                         Stages{2, 2, "zb-v", 3}, Stages{2, 2, "zb-v", 2}));

// ---- fp8: copies of operands ----------------------------------------------------------------------------------------

class PlanOfFp8 : public testing::TestWithParam<Fp8Spec::Recipe> {};

TEST_P(PlanOfFp8, HoldsTheCopiesOfOperands) {
  auto options = test::small_options({true, 8, 2, 500});
  options.hidden_size = 64;
  options.ffn_hidden_size = 192;
  options.max_position_embeddings = 64;
  for (const bool keeps : {false, true})
    for (const bool weight_gradients : {true, false})
      for (const char* name : {"1f1b", "zb-h1"}) {
        SCOPED_TRACE(fmt::format("{} keeps {} wgrad {}", name, keeps, weight_gradients));
        ModelSpec model = build_model(options, 500);
        Fp8Spec fp8;
        fp8.recipe = GetParam();
        fp8.hybrid = true;
        fp8.keep_weights = keeps;
        fp8.weight_gradients = weight_gradients;
        use_fp8(model, fp8);
        ParallelSpec parallel;
        parallel.pp = 2;
        ScheduleSpec spec;
        spec.pp = 2, spec.num_micro_batches = 4;
        const Schedule schedule = insert_communication(make_schedule(name, spec));
        test::on_ranks(2, [&](Communicator& world) {
          test::RankParams r(world, model, parallel, DType::bf16);
          const BatchSpec shape{64, 2, 8};
          const Model net(model, shape, r.groups, r.store, 0, {});
          Fp8State state(model, {});
          const Lane& lane = schedule.lanes[static_cast<std::size_t>(r.groups.coordinate.pp)];
          const MemoryPlan plan = plan_memory(model, parallel, shape, r.groups.coordinate, DType::bf16, lane);
          ExecutorParts parts{r.stream, r.groups, r.store, 1, plan.arenas, static_cast<std::size_t>(plan.scratch_bytes)};
          parts.fp8 = &state;
          Executor executor(parts, net, shape, {});
          (void)executor.run_lane(lane, {4, some_batch(2, 64)}, 1.0, {});
          const auto used = executor.memory();
          EXPECT_EQ(static_cast<std::int64_t>(used.slots + used.kept + used.recompute), plan.activation_bytes);
          EXPECT_LE(static_cast<std::int64_t>(used.scratch), plan.scratch_bytes);
          EXPECT_GE(static_cast<double>(used.scratch), 0.8 * static_cast<double>(plan.scratch_bytes));
          EXPECT_EQ(static_cast<std::int64_t>(state.weight_bytes()), plan.fp8_weight_bytes);
          EXPECT_EQ(plan.fp8_weight_bytes > 0, keeps);
        });
      }
}

INSTANTIATE_TEST_SUITE_P(Recipes, PlanOfFp8,
                         testing::Values(Fp8Spec::Recipe::delayed, Fp8Spec::Recipe::tensorwise,
                                         Fp8Spec::Recipe::blockwise));

TEST(MemoryPlan, TheTotalAddsUp) {
  const MemoryPlan plan{1, 2, 3, 7, 10, 4, 40, 5, 9, 6, {}, {}};
  EXPECT_EQ(plan.total(), 1 + 2 + 3 + 7 + 40 + 5 + 6);
}

}  // namespace
}  // namespace mt
