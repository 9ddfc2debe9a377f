// Forward and backward as graphs of the device under test: the bits of a run without.

#include <chrono>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "comm/nccl.h"
#include "comm/ranks.h"
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

TEST(OnTheDeviceGraphs, ChangeNoBitWithTensorParallelRanks) {
  const TempDir dir;
  auto o = graph_options(dir);
  o.bf16 = true;
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  o.tp_comm_overlap = true;
  o.eval_interval = 2;  // operations of the same ranks outside of graphs
  o.eval_iters = 1;
  o.data.split = "8,1,1";
  expect_same_run(o, 2, dir);
  o = graph_options(dir, "gpt2");
  o.parallel.tp = 2;
  o.sharding_strategy = "optim";
  o.overlap = {true, true};
  o.batch.global_batch = 4;
  expect_same_run(o, 4, dir);
  o = graph_options(dir);
  o.parallel.tp = o.parallel.pp = 2;
  o.deterministic = true;  // sums in rank order: kernels and memory of the links lie in graphs, too
  o.batch.global_batch = 4;
  expect_same_run(o, 4, dir);
}

TEST(OnTheDeviceGraphs, ChangeNoBitWithWhatIsMadeAgain) {
  const TempDir dir;
  auto o = graph_options(dir, "gpt2");  // with dropout
  o.recompute.granularity = "selective";
  expect_same_run(o, 1, dir);
  o = graph_options(dir);
  o.model.num_layers = 4;
  o.recompute.granularity = "full";
  o.recompute.method = "uniform";
  o.recompute.num_layers = 2;
  o.parallel.pp = 2;
  o.batch.global_batch = 4;
  expect_same_run(o, 2, dir);
  o.parallel.pp = 1;
  o.parallel.tp = 2;
  o.recompute.num_layers = 1;
  o.recompute.distribute_saved = true;  // shares of inputs are gathered inside graphs
  expect_same_run(o, 2, dir);
}

TEST(OnTheDeviceGraphs, ChangeNoBitWithFp8Products) {
  for (const char* recipe : {"delayed", "tensorwise", "blockwise"}) {
    SCOPED_TRACE(recipe);
    const TempDir dir;
    auto o = graph_options(dir);
    o.bf16 = true;
    o.fp8.format = "hybrid";
    o.fp8.recipe = recipe;
    o.fp8.amax_history_len = 2;
    o.cuda_graph_warmup_steps = 3;  // what is made once a step is not there, or stays, when a later micro-batch is noted
    expect_same_run(o, 1, dir);
    if (o.fp8.recipe == "blockwise") continue;
    o.parallel.tp = 2;
    o.batch.global_batch = 2;
    expect_same_run(o, 2, dir);
  }
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

// With messages inside, and a backward for what is made again.
TEST(OnTheDeviceGraphs, AreCapturedOnceAndLaunchedForEveryMicroBatchOfATensorParallelRank) {
  if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  if (const auto why = test::why_no_nccl(2); !why.empty()) GTEST_SKIP() << why;
  const TempDir dir;
  auto o = graph_options(dir);
  o.cuda_graph_impl = "local";
  o.parallel.tp = 2;
  o.recompute.granularity = "selective";
  const auto complete = complete_options(o, 2);
  std::vector<comm::TrafficLog> logs(2);
  comm::run_local_ranks(2, {}, [&](std::unique_ptr<Communicator> host) {
    auto& log = logs[static_cast<std::size_t>(host->rank())];
    const auto world = comm::recording(comm::nccl_world(*host, test::rank_device(*host)), log);
    const TrainerHooks hooks;
    TrainingRun run(*world, complete, hooks);
    std::vector<comm::TrafficRow> rows[3];
    for (auto& of_step : rows) {
      log.clear();
      train_step(run);
      of_step = log.rows();
    }
    EXPECT_EQ(run.executor->graphs()->captured(), 3u) << "a forward, what is made again, a backward";
    EXPECT_EQ(run.executor->graphs()->launched(), 12u);
    ASSERT_GT(rows[0].size(), 1u);
    for (int step : {1, 2}) {  // of which the first captured
      ASSERT_EQ(rows[step].size(), rows[0].size());
      for (std::size_t i = 0; i < rows[0].size(); ++i) {
        EXPECT_EQ(rows[step][i].group + rows[step][i].operation, rows[0][i].group + rows[0][i].operation);
        EXPECT_EQ(rows[step][i].calls, rows[0][i].calls) << rows[0][i].group;
        EXPECT_EQ(rows[step][i].bytes_sent, rows[0][i].bytes_sent) << rows[0][i].group;
      }
    }
  });
}

TEST(OnTheDeviceGraphs, ARankThatStopsIsNamedByTheOthersOfItsGraphs) {
  if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  if (const auto why = test::why_no_nccl(2); !why.empty()) GTEST_SKIP() << why;
  const TempDir dir;
  auto o = graph_options(dir);
  o.cuda_graph_impl = "local";
  o.cuda_graph_warmup_steps = 1;
  o.parallel.tp = 2;
  const auto complete = complete_options(o, 2);
  CommOptions limit;
  limit.timeout_s = 5;
  std::string said;
  comm::run_local_ranks(2, limit, [&](std::unique_ptr<Communicator> host) {
    const auto world = comm::nccl_world(*host, test::rank_device(*host));
    TrainerHooks hooks;
    hooks.on_phase = [&](const char* phase, std::int64_t iteration) {
      if (host->rank() == 1 && iteration == 3 && std::string_view(phase) == "forward-backward")
        throw Error(Code::data, "stops here");
    };
    try {
      TrainingRun run(*world, complete, hooks);
      for (int i = 0; i < 3; ++i) train_step(run);
    } catch (const Error& e) {
      if (host->rank() == 0) said = e.what();
      else std::this_thread::sleep_for(std::chrono::seconds(8));
    }
  });
  for (const char* words : {"no answer after", "from rank 1", "group tp ", "behind it in a graph", "rank 0"})
    EXPECT_NE(said.find(words), std::string::npos) << said;
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
  EXPECT_EQ(said([](auto& o) { o.parallel.tp = 2; }, 2), "nothing") << "which way messages go is not known yet";
  const std::pair<std::string, std::string> cases[] = {
      {said([](auto& o) { o.parallel.tp = 2, o.distributed_backend = "mpi"; }, 2), "those through the host cannot"},
      {said([](auto& o) { o.sharding_strategy = "optim_grads"; }), "local with sharded gradients"},
      {said([](auto& o) { o.data.reset_attention_mask = true, o.data.mock_data_style = "megatron"; }), "local with samples in parts"},
      {said([](auto& o) { o.host_layers = 1; }), "local with cpu-offloading-num-layers"},
      {said([](auto& o) { o.model.num_experts = 2; }), "local with num-experts"},
      {said([](auto& o) { o.parallel.pp = 2, o.schedule = "zb-h1"; }, 2), "makes graphs of whole backwards"},
      {said([](auto& o) { o.cuda_graph_impl = "transformer_engine"; }), "cuda-graph-impl transformer_engine: layers are"},
      {said([](auto& o) { o.cuda_graph_impl = "full_iteration"; }), "cuda-graph-impl full_iteration: between"},
      {said([](auto& o) { o.cuda_graph_impl = "all"; }), "'all'"}};
  for (const auto& [text, words] : cases) EXPECT_NE(text.find(words), std::string::npos) << text << "\n  wanted: " << words;
  EXPECT_EQ(said([](auto& o) { o.device = "cpu", o.parallel.tp = 2; }, 2), "nothing");
}

}  // namespace
}  // namespace mt
