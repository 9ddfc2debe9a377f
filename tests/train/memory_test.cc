// What pure code predicts against what a run really allocates.

#include "train/rank_memory.h"

#include "train/pipeline_schedule.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TEST(Memory, PeakOfARunIsWithinFivePercentOfThePlan) {
  for (const auto& [bf16, bf16_gradients] : {std::pair{false, false}, {true, false}, {true, true}}) {
    for (const char* family : {"gpt2", "llama", "qwen3"}) {
      const test::TempDir dir;
      auto o = test::tiny_options(dir, family);
      o.bf16 = bf16;
      o.grad_reduce_in_bf16 = bf16_gradients;
      o.train_iters = 1;
      o.model.hidden_size = 256;
      o.model.num_attention_heads = 8;
      o.data.vocab_size = 4000;
      o.batch = {64, 4, 8};
      o.model.max_position_embeddings = 64;
      const auto complete = complete_options(o, 1);
      const auto plan = plan_memory(model_of(complete), complete.parallel, complete.batch, {},
                                    complete.state(), 1);
      const std::size_t before = live_buffer_bytes();
      reset_peak_buffer_bytes();
      test::run_tiny(o, 1);
      const auto peak = static_cast<double>(peak_buffer_bytes() - before);
      EXPECT_NEAR(peak / static_cast<double>(plan.total()), 1.0, 0.05) << family << (bf16 ? " bf16" : " f32");
    }
  }
}

// Samples in parts bring bounds and places beside positions; the plan has room for a part a token.
TEST(Memory, PeakOfARunOverPartedSamplesIsWithinFivePercentOfThePlan) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.data.mock_data_style = "megatron";
  o.data.inter_document_masking = true;
  o.train_iters = 1;
  o.model.hidden_size = 64;
  o.data.vocab_size = 500;
  o.batch = {256, 4, 8};
  o.model.max_position_embeddings = 256;
  const auto complete = complete_options(o, 1);
  auto whole = complete.batch;
  whole.parts = false;
  const auto bytes = [&](const BatchSpec& batch) {
    return plan_memory(model_of(complete), complete.parallel, batch, {}, complete.state(), 1).total();
  };
  EXPECT_GT(bytes(complete.batch), bytes(whole));
  const std::size_t before = live_buffer_bytes();
  reset_peak_buffer_bytes();
  test::run_tiny(o, 1);
  const auto peak = static_cast<double>(peak_buffer_bytes() - before);
  EXPECT_NEAR(peak / static_cast<double>(bytes(complete.batch)), 1.0, 0.05);
}

// All ranks of a run together, with what only several have: shards, instances, whole matrices, gradients in few bits.
TEST(Memory, PeakOfSeveralRanksIsWithinTwoPercentOfThePlan) {
  struct Case {
    UpdateRule rule;
    const char* strategy;
    int tp, instances;
    bool bf16_gradients;
  };
  using R = UpdateRule;
  for (const Case& c : {Case{R::adam, "optim", 1, 2, false}, {R::adam, "optim_grads", 1, 2, true},
                        {R::adam, "optim_grads_params", 1, 2, false}, {R::adam, "optim", 2, 2, true},
                        {R::muon, "no_shard", 2, 1, false}, {R::muon, "optim", 1, 1, false}, {R::muon, "optim_grads_params", 1, 2, true},
                        {R::lion, "optim_grads", 1, 4, false}, {R::sgd, "optim", 2, 1, true}}) {
    SCOPED_TRACE(fmt::format("{} {}, tp {}, {} instances{}", update_rule_name(c.rule), c.strategy, c.tp, c.instances,
                             c.bf16_gradients ? ", bf16 gradients" : ""));
    const test::TempDir dir;
    auto o = test::tiny_options(dir, "llama");
    o.optimizer.rule = c.rule;
    o.bf16 = true;
    o.grad_reduce_in_bf16 = c.bf16_gradients;
    o.sharding_strategy = c.strategy;
    o.use_megatron_fsdp = std::string(c.strategy) == "optim_grads_params";
    o.parallel.tp = c.tp;
    o.parallel.optimizer_instances = c.instances;
    o.train_iters = 1;
    o.model.hidden_size = 128;
    o.model.num_attention_heads = 8;
    o.model.max_position_embeddings = 64;
    o.data.vocab_size = 2000;
    constexpr int kRanks = 4;
    o.batch = {64, 4, 8 * kRanks / c.tp};
    const auto complete = complete_options(o, kRanks);
    std::int64_t planned = 0;
    for (const Coordinate& at : place(complete.parallel).coordinates)
      planned += rank_memory(complete, model_of(complete), at, work_of(complete, at.pp).lane).total();
    const std::size_t before = live_buffer_bytes();
    reset_peak_buffer_bytes();
    test::run_tiny(o, kRanks);
    EXPECT_NEAR(static_cast<double>(peak_buffer_bytes() - before) / static_cast<double>(planned), 1.0, 0.02);
  }
}

}  // namespace
}  // namespace mt
