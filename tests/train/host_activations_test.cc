// Saved tensors in host memory beside the device under test: the bits of a run without, and the bytes of the plan.

#include "base/error.h"
#include "train/pipeline_schedule.h"
#include "train/rank_memory.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions host_options(const TempDir& dir, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.batch = {8, 1, 2};
  o.model.num_layers = 2;
  o.train_iters = 1;
  o.bf16 = true;
  return o;
}

void expect_same_run(const TrainingOptions& without, int layers, int ranks, const TempDir& dir) {
  auto with = without;
  with.host_layers = layers;
  test::expect_same_run(without, with, ranks, dir);
}

TEST(OnTheDeviceOffload, SavedTensorsOnTheHostChangeNoBit) {
  const TempDir dir;
  expect_same_run(host_options(dir, "gpt2"), 1, 1, dir);
  auto o = host_options(dir);
  o.model.num_layers = 4;
  o.bf16 = false;
  expect_same_run(o, 4, 1, dir);  // all of them, each buffer used more than once
  o = host_options(dir);
  o.sharding_strategy = "optim_grads_params";
  o.use_megatron_fsdp = true;
  expect_same_run(o, 2, 2, dir);
}

TEST(OnTheDeviceOffload, SoDoThoseOfPipelinesAndOfTensorParallelRanks) {
  const TempDir dir;
  auto o = host_options(dir);
  o.model.num_layers = 4;
  o.parallel.pp = 2;
  o.parallel.vpp = 2;
  o.schedule = "interleaved";
  expect_same_run(o, 1, 2, dir);
  o = host_options(dir);
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  expect_same_run(o, 2, 2, dir);
}

// What a run takes beside a run without is what the plan says, to the byte.
TEST(OnTheDeviceOffload, ArenasOnTheDeviceAndTheHostAreThoseOfThePlan) {
  if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  std::int64_t planned_without = 0, device_without = 0, host_without = 0;
  for (const int layers : {0, 1, 4}) {
    SCOPED_TRACE(layers);
    const TempDir dir;
    auto o = host_options(dir);
    o.model.num_layers = 4;
    o.batch = {32, 1, 2};
    o.model.max_position_embeddings = 32;
    o.host_layers = layers;
    const auto complete = complete_options(o, 1);
    const auto plan = rank_memory(complete, model_of(complete), {}, work_of(complete, 0).lane);
    const std::size_t before = live_buffer_bytes(Memory::device), pinned = live_buffer_bytes(Memory::pinned);
    reset_peak_buffer_bytes();
    TrainerHooks hooks;
    std::int64_t host = 0;
    hooks.after_backward = [&](std::int64_t, ParameterStore&) {
      host = static_cast<std::int64_t>(live_buffer_bytes(Memory::pinned) - pinned);
    };
    test::run_tiny(o, 1, hooks);
    const auto device = static_cast<std::int64_t>(peak_buffer_bytes(Memory::device) - before);
    EXPECT_NEAR(static_cast<double>(device) / static_cast<double>(plan.total()), 1, 0.05);
    if (layers == 0) {
      planned_without = plan.total(), device_without = device, host_without = host;
      EXPECT_EQ(plan.host_bytes, 0);
      continue;
    }
    EXPECT_GT(plan.host_bytes, 0);
    EXPECT_EQ(host - host_without, plan.host_bytes);
    EXPECT_EQ(device - device_without, plan.total() - planned_without);
    if (layers == 4) {
      EXPECT_LT(plan.total(), planned_without);
    }
  }
}

std::string refused(const TrainingOptions& o, int ranks) {
  try {
    complete_options(o, ranks);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    return e.what();
  }
  return "nothing";
}

TEST(HostLayersOption, WhatCannotGoWithItIsRefusedByName) {
  const TempDir dir;
  auto o = host_options(dir);
  o.model.num_layers = 4;
  o.device = "cuda";
  o.host_layers = 2;
  EXPECT_EQ(refused(o, 1), "nothing");
  auto again = o;
  again.recompute.granularity = "selective";
  EXPECT_NE(refused(again, 1).find("cpu-offloading-num-layers with recompute"), std::string::npos) << refused(again, 1);
  auto split = o;
  split.parallel.pp = 2;
  split.schedule = "zb-h1";
  EXPECT_NE(refused(split, 2).find("brings saved tensors back once"), std::string::npos) << refused(split, 2);
  auto many = o;
  many.host_layers = 5;
  EXPECT_NE(refused(many, 1).find("cpu-offloading-num-layers 5 is not in 0 to 4"), std::string::npos) << refused(many, 1);
}

TEST(HostLayersOption, OnACpuNothingIsMoved) {
  const TempDir dir;
  auto o = host_options(dir);
  o.host_layers = 1;
  o.device = "cpu";
  EXPECT_EQ(complete_options(o, 1).host_layers, 0);
  o.device = "cuda";
  EXPECT_EQ(complete_options(o, 1).host_layers, 1);
}

}  // namespace
}  // namespace mt
