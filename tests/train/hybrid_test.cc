// Hybrid sharding: the state of each optimizer instance is sharded over its ranks alone, and the run is the same.

#include "base/error.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::expect_same;
using test::TempDir;

TrainingOptions options_of(const TempDir& dir, int stage, int instances, const std::string& family = "gpt2") {
  auto o = test::tiny_options(dir, family);
  o.train_iters = 6;
  o.batch = {16, 1, 16};
  constexpr const char* strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  o.sharding_strategy = strategies[stage];
  o.use_megatron_fsdp = stage == 3;
  o.parallel.optimizer_instances = instances;
  return o;
}

TEST(Hybrid, StaysWithinTheBoundsOfOneInstanceAtEveryStage) {
  const TempDir dir;
  const Curve one = test::run_tiny(options_of(dir, 0, 1), 1);
  for (int stage : {1, 2, 3}) {
    const Curve whole = test::run_tiny(options_of(dir, stage, 1), 4);
    for (int instances : {2, 4}) {
      SCOPED_TRACE(fmt::format("ZeRO {}, {} instances", stage, instances));
      const Curve hybrid = test::run_tiny(options_of(dir, stage, instances), 4);
      for (const Curve* c : {&one, &whole}) {
        const auto d = test::distance(*c, hybrid);
        EXPECT_LE(d.loss, test::kLossBound);
        EXPECT_LE(d.grad_norm, test::kNormBound);
      }
      // Two ranks sum as one pair whether inside an instance or across two.
      if (instances == 2 && stage == 1) {
        EXPECT_EQ(test::run_tiny(options_of(dir, 1, 1), 2).loss, test::run_tiny(options_of(dir, 1, 2), 2).loss);
      }
    }
  }
}

// At a fixed number of instances neither pipeline nor schedule nor overlap changes a bit.
TEST(Hybrid, OverlapAndPipelinesChangeNoBit) {
  for (int stage : {1, 2, 3}) {
    const TempDir dir;
    auto o = options_of(dir, stage, 2);
    o.bf16 = stage != 2;
    o.train_iters = 4;
    o.eval_interval = 2;
    o.eval_iters = 1;
    o.save = dir / "flat";
    const Curve flat = test::run_tiny(o, 4);
    const auto same = [&](const char* name, int ranks) {
      SCOPED_TRACE(fmt::format("ZeRO {}, {}", stage, name));
      o.save = dir / name;
      const Curve c = test::run_tiny(o, ranks);
      EXPECT_EQ(flat.loss, c.loss);
      EXPECT_EQ(flat.grad_norm, c.grad_norm);
      expect_same(dir / "flat/iter_0000004", dir / name / "iter_0000004");
    };
    o.overlap = {true, stage < 3};
    same("overlapped", 4);
    o.parallel.pp = 2;
    same("pipe", 8);
    o.overlap = {};
    o.schedule = "zb-h1";
    same("split", 8);
  }
}

// A checkpoint of any number of instances is a start for any other; at the same number the run goes on to the bit.
TEST(Hybrid, CheckpointsMoveBetweenNumbersOfInstances) {
  const TempDir dir;
  auto o = options_of(dir, 1, 2);
  o.bf16 = true;
  o.save = dir / "whole";
  const Curve whole = test::run_tiny(o, 4);
  o.exit_interval = 3;
  o.save = dir / "parts";
  test::run_tiny(o, 4);
  o.exit_interval = 0;
  o.load = dir / "parts";
  o.ckpt_step = 3;
  o.save = dir / "again";
  test::run_tiny(o, 4);
  expect_same(dir / "whole/iter_0000006", dir / "again/iter_0000006");
  for (const auto& [stage, instances] : {std::pair{1, 1}, {1, 4}, {3, 2}, {0, 1}}) {
    SCOPED_TRACE(fmt::format("ZeRO {}, {} instances", stage, instances));
    auto other = options_of(dir, stage, instances);
    other.bf16 = true;
    other.load = dir / "parts";
    other.ckpt_step = 3;
    const Curve rest = test::run_tiny(other, 4);
    ASSERT_EQ(rest.loss.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(rest.loss[i], whole.loss[3 + i], 2e-3 * whole.loss[3 + i]);
  }
}

TEST(Hybrid, WhatDoesNotDivideOrHasNothingToShardIsRefused) {
  const TempDir dir;
  const auto refused = [&](const TrainingOptions& o, int world, const char* want) {
    try {
      complete_options(o, world);
      ADD_FAILURE() << "accepted, wanted " << want;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config) << e.what();
      EXPECT_NE(std::string(e.what()).find(want), std::string::npos) << e.what();
    }
  };
  refused(options_of(dir, 1, 3), 4, "is not divisible by num-distributed-optimizer-instances 3");
  refused(options_of(dir, 0, 2), 4, "without sharded optimizer state");
}

}  // namespace
}  // namespace mt
