// Optimizer state in host memory beside the device under test: the bits of a run without, and the bytes of the plan.

#include "base/error.h"
#include "train/pipeline_schedule.h"
#include "train/rank_memory.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions offload_options(const TempDir& dir, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.model.num_layers = 2;
  o.batch = {8, 1, 2};
  o.train_iters = 2;
  o.bf16 = true;
  o.optimizer.host.largest_piece = 200;  // several of most matrices
  return o;
}

TEST(OnTheDeviceOffload, TheUpdateIsTheSameToTheBitAtEveryStageOfZero) {
  const TempDir dir;
  constexpr const char* kStrategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(kStrategies[stage]);
    auto o = offload_options(dir, stage == 1 ? "gpt2" : "llama");
    o.sharding_strategy = kStrategies[stage];
    o.use_megatron_fsdp = stage == 3;
    o.overlap = {stage > 0, stage > 0 && stage < 3};
    auto with = o;
    with.optimizer_names.cpu_offload = true;
    with.optimizer_names.offload_fraction = stage % 2 == 0 ? 1 : 0.4;
    with.optimizer_names.pin_cpu_params = stage != 2;
    with.optimizer_names.pin_cpu_grads = stage != 3;
    test::expect_same_run(o, with, stage == 0 ? 1 : 2, dir);
  }
}

TEST(OnTheDeviceOffload, EveryRuleAndDtypeIsTheSameToTheBit) {
  const TempDir dir;
  for (const std::string kind : {"sgd", "lion", "f32", "bf16 moments", "fp16"}) {
    SCOPED_TRACE(kind);
    auto o = offload_options(dir);
    if (kind == "sgd" || kind == "lion") o.optimizer_names.rule = kind;
    if (kind == "f32" || kind == "fp16") o.bf16 = false;
    if (kind == "fp16") {
      o.fp16 = true;
      o.loss_scale.initial = 1024;
    }
    if (kind == "bf16 moments") {
      o.optimizer_names.precision_aware = true;
      o.optimizer_names.exp_avg_dtype = o.optimizer_names.exp_avg_sq_dtype = "bf16";
      o.sharding_strategy = "optim";
      o.grad_reduce_in_bf16 = true;
    }
    auto with = o;
    with.optimizer_names.cpu_offload = true;
    with.optimizer_names.offload_fraction = kind == "sgd" ? 0.5 : 1;
    test::expect_same_run(o, with, 1, dir);
  }
}

TEST(OnTheDeviceOffload, ACheckpointIsResumedWithAndWithoutIt) {
  const TempDir dir;
  auto o = offload_options(dir);
  o.save = dir / "whole";
  test::run_tiny(o, 1);
  for (const bool first_with : {true, false}) {
    SCOPED_TRACE(first_with ? "begun with" : "begun without");
    auto half = o;
    half.async_save = first_with;
    half.optimizer_names.cpu_offload = first_with;
    half.exit_interval = 1;
    half.save = dir / (first_with ? "with" : "without");
    test::run_tiny(half, 1);
    half.exit_interval = 0;
    half.load = half.save;
    half.optimizer_names.cpu_offload = !first_with;
    test::run_tiny(half, 1);
    test::expect_same(dir / "whole/iter_0000002", fs::path(half.save) / "iter_0000002");
  }
}

// Beside state and pieces the host holds what every run has there, for messages.
TEST(OnTheDeviceOffload, BytesOnTheDeviceAndTheHostAreThoseOfThePlan) {
  if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
  std::size_t always = 0;
  for (const double share : {0.0, 1.0, 0.5}) {
    const TempDir dir;
    auto o = offload_options(dir);
    o.optimizer.host = {};
    o.optimizer_names.cpu_offload = share > 0;
    o.optimizer_names.offload_fraction = share;
    o.train_iters = 1;
    o.model.hidden_size = 64;
    o.data.vocab_size = 1000;
    const auto complete = complete_options(o, 1);
    const auto plan = rank_memory(complete, model_of(complete), {}, work_of(complete, 0).lane);
    EXPECT_EQ(plan.host_bytes > 0, share > 0);
    if (share == 1) {
      EXPECT_EQ(plan.optimizer_bytes, 0);
    }
    const std::size_t device = live_buffer_bytes(Memory::device), pinned = live_buffer_bytes(Memory::pinned);
    reset_peak_buffer_bytes();
    TrainerHooks hooks;
    std::size_t between = 0;
    hooks.after_backward = [&](std::int64_t, ParameterStore&) { between = live_buffer_bytes(Memory::pinned) - pinned; };
    test::run_tiny(o, 1, hooks);
    EXPECT_NEAR(static_cast<double>(peak_buffer_bytes(Memory::device) - device) / static_cast<double>(plan.total()), 1, 0.02);
    if (share == 0) always = between;
    EXPECT_EQ(between, always + static_cast<std::size_t>(plan.host_bytes));
  }
}

std::string refused(const TrainingOptions& o) {
  try {
    complete_options(o, 1);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    return e.what();
  }
  return "nothing";
}

TEST(OffloadOptions, WhatTheHostCannotUpdateIsRefusedByName) {
  const TempDir dir;
  auto o = offload_options(dir);
  o.device = "cuda";
  o.optimizer_names.cpu_offload = true;
  EXPECT_EQ(refused(o), "nothing");
  auto muon = o;
  muon.optimizer_names.rule = "muon";
  EXPECT_NE(refused(muon).find("optimizer-cpu-offload with optimizer muon"), std::string::npos) << refused(muon);
  auto fp8 = o;
  fp8.optimizer_names.precision_aware = true;
  fp8.optimizer_names.exp_avg_dtype = "fp8";
  fp8.sharding_strategy = "optim";
  EXPECT_NE(refused(fp8).find("optimizer-cpu-offload with moments in fp16 or fp8"), std::string::npos) << refused(fp8);
  auto share = o;
  share.optimizer_names.offload_fraction = 1.5;
  EXPECT_NE(refused(share).find("optimizer-offload-fraction 1.5 is not in [0, 1]"), std::string::npos) << refused(share);
}

TEST(OffloadOptions, OnACpuNothingIsMoved) {
  const TempDir dir;
  auto o = offload_options(dir);
  o.device = "cpu";
  o.optimizer_names.cpu_offload = true;
  EXPECT_EQ(complete_options(o, 1).optimizer.host.share, 0);
  o.device = "cuda";
  EXPECT_EQ(complete_options(o, 1).optimizer.host.share, 1);
  o.optimizer_names.offload_fraction = 0.25;
  EXPECT_EQ(complete_options(o, 1).optimizer.host.share, 0.25);
  o.optimizer_names.cpu_offload = false;
  EXPECT_EQ(complete_options(o, 1).optimizer.host.share, 0);
}

}  // namespace
}  // namespace mt
