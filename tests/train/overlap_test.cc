// Overlap of data-parallel messages with compute changes when they leave, and no bit of the result.

#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::expect_same;

TEST(Overlap, ChangesNoBitAtAnyStageWithValidationAndSavesBetween) {
  for (bool sharded : {false, true}) {
    for (const char* schedule : {"1f1b", "zb-h1"}) {
      const test::TempDir dir;
      auto o = test::tiny_options(dir, "gpt2");
      o.bf16 = sharded;
      o.train_iters = 4;
      o.eval_interval = 2;
      o.eval_iters = 1;
      o.save_interval = 2;
      o.use_distributed_optimizer = sharded;
      o.parallel.pp = 2;
      o.schedule = schedule;
      o.save = dir / "plain";
      const Curve plain = test::run_tiny(o, 4);
      o.overlap.grad_reduce = true;
      o.overlap.param_gather = sharded;
      o.save = dir / "overlapped";
      const Curve overlapped = test::run_tiny(o, 4);
      EXPECT_EQ(plain.loss, overlapped.loss);
      EXPECT_EQ(plain.grad_norm, overlapped.grad_norm);
      for (const char* iteration : {"iter_0000002", "iter_0000004"})
        expect_same(dir / "plain" / iteration, dir / "overlapped" / iteration);
    }
  }
}

TEST(Overlap, OfGathersResumesToTheBitAtEveryStage) {
  for (const char* strategy : {"optim", "optim_grads", "optim_grads_params"}) {
    const test::TempDir dir;
    auto o = test::tiny_options(dir, "gpt2");
    o.train_iters = 4;
    o.sharding_strategy = strategy;
    o.use_megatron_fsdp = std::string(strategy) == "optim_grads_params";
    o.overlap.grad_reduce = true;
    o.overlap.param_gather = !o.use_megatron_fsdp;
    o.save = dir / "whole";
    const Curve whole = test::run_tiny(o, 2);
    o.save = dir / "halves";
    o.exit_interval = 2;
    test::run_tiny(o, 2);
    o.load = o.save;
    EXPECT_EQ(test::run_tiny(o, 2).loss.back(), whole.loss.back()) << strategy;
    expect_same(dir / "whole" / "iter_0000004", dir / "halves" / "iter_0000004");
  }
}

TEST(Overlap, OfGathersNeedsShardsAndReducesUnderWay) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.overlap.param_gather = true;
  o.parallel.dp = 2;
  EXPECT_THROW(complete_options(o, 2), Error);
  o.use_distributed_optimizer = true;
  EXPECT_THROW(complete_options(o, 2), Error);
  o.overlap.grad_reduce = true;
  EXPECT_NO_THROW(complete_options(o, 2));
}

}  // namespace
}  // namespace mt
