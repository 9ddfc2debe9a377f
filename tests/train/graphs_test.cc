// Forward and backward as graphs of the device under test: the bits of a run without.

#include "base/error.h"
#include "train/pipeline_schedule.h"
#include "train/rank_memory.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"
#include "train/train_step.h"
#include "train/training_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions graph_options(const TempDir& dir, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.model.num_layers = 2;
  o.batch = {8, 1, 2};
  o.train_iters = 3;
  o.cuda_graph_warmup_steps = 2;
  return o;
}

void expect_same_run(const TrainingOptions& without, int ranks, const TempDir& dir) {
  auto with = without;
  with.cuda_graph_impl = "local";
  test::expect_same_run(without, with, ranks, dir);
}

TEST(OnTheDeviceGraphs, ChangeNoBit) {
  const TempDir dir;
  auto o = graph_options(dir);
  o.bf16 = true;
  o.eval_interval = 2;  // a forward-only pass between graphs
  o.eval_iters = 1;
  o.data.split = "8,1,1";
  expect_same_run(o, 1, dir);
  o = graph_options(dir, "gpt2");
  o.sharding_strategy = "optim";
  o.overlap = {true, true};
  o.batch.global_batch = 4;
  expect_same_run(o, 2, dir);
  o = graph_options(dir);
  o.fp16 = true;
  o.loss_scale.initial = 1 << 20;  // it falls on the way
  o.parallel.pp = 2;
  o.batch.global_batch = 4;
  expect_same_run(o, 2, dir);
}

TEST(OnTheDeviceGraphs, AnActThatRanOftenEnoughIsLaunchedAsAWhole) {
  if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  const TempDir dir;
  auto o = graph_options(dir);
  o.cuda_graph_impl = "local";
  const auto complete = complete_options(o, 1);
  test::on_device_ranks(1, [&](Communicator& world) {
    const TrainerHooks hooks;
    TrainingRun run(world, complete, hooks);
    train_step(run);
    ASSERT_NE(run.executor->graphs(), nullptr);
    EXPECT_EQ(run.executor->graphs()->captured(), 0u) << "two micro-batches in one place";
    train_step(run);
    EXPECT_EQ(run.executor->graphs()->captured(), 2u) << "a forward, a backward";
    EXPECT_EQ(run.executor->graphs()->launched(), 4u);
    train_step(run);
    EXPECT_EQ(run.executor->graphs()->captured(), 2u);
    EXPECT_EQ(run.executor->graphs()->launched(), 8u);
  });
}

TEST(OnTheDeviceGraphs, TakeTheBytesOfThePlan) {
  if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  std::int64_t planned[2], taken[2];
  for (const int on : {0, 1}) {
    const TempDir dir;
    auto o = graph_options(dir);
    o.cuda_graph_impl = on == 1 ? "local" : "none";
    o.cuda_graph_warmup_steps = 1;
    o.train_iters = 1;
    const auto complete = complete_options(o, 1);
    planned[on] = rank_memory(complete, model_of(complete), {}, work_of(complete, 0).lane).total();
    const std::size_t before = live_buffer_bytes(Memory::device);
    reset_peak_buffer_bytes();
    test::run_tiny(o, 1);
    taken[on] = static_cast<std::int64_t>(peak_buffer_bytes(Memory::device) - before);
  }
  EXPECT_EQ(taken[1] - taken[0], planned[1] - planned[0]);
  EXPECT_EQ(planned[1] - planned[0], 32) << "eight losses";
}

TEST(GraphOptions, WhatGraphsCannotBeMadeOfIsRefusedByName) {
  const TempDir dir;
  const auto said = [&](auto set, int ranks = 1) -> std::string {
    auto o = graph_options(dir);
    o.device = "cuda";
    o.cuda_graph_impl = "local";
    set(o);
    try {
      complete_options(o, ranks);
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said([](auto&) {}), "nothing");
  const std::pair<std::string, std::string> cases[] = {
      {said([](auto& o) { o.parallel.tp = 2; }, 2), "local with tensor-model-parallel-size"},
      {said([](auto& o) { o.sharding_strategy = "optim_grads"; }), "local with sharded gradients"},
      {said([](auto& o) { o.data.reset_attention_mask = true, o.data.mock_data_style = "megatron"; }), "local with samples in parts"},
      {said([](auto& o) { o.recompute.granularity = "selective"; }), "local with recompute"},
      {said([](auto& o) { o.host_layers = 1; }), "local with cpu-offloading-num-layers"},
      {said([](auto& o) { o.bf16 = true, o.fp8.format = "hybrid"; }), "local with fp8-format"},
      {said([](auto& o) { o.parallel.pp = 2, o.schedule = "zb-h1"; }, 2), "makes graphs of whole backwards"},
      {said([](auto& o) { o.cuda_graph_impl = "transformer_engine"; }), "cuda-graph-impl transformer_engine: layers are"},
      {said([](auto& o) { o.cuda_graph_impl = "full_iteration"; }), "cuda-graph-impl full_iteration: between"},
      {said([](auto& o) { o.cuda_graph_impl = "all"; }), "'all'"}};
  for (const auto& [text, words] : cases) EXPECT_NE(text.find(words), std::string::npos) << text << "\n  wanted: " << words;
  EXPECT_EQ(said([](auto& o) { o.device = "cpu", o.parallel.tp = 2; }, 2), "nothing");
}

}  // namespace
}  // namespace mt
