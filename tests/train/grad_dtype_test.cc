// Runs whose gradients are accumulated and summed in bf16.

#include "base/error.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::TempDir;

TrainingOptions bf16_options(const TempDir& dir, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.bf16 = o.grad_reduce_in_bf16 = true;
  return o;
}

TEST(Bf16Gradients, LearnAsF32OnesDoInEveryLayout) {
  for (const char* family : {"llama", "gpt2"}) {
    const TempDir dir;
    auto o = bf16_options(dir, family);
    const auto one = test::run_tiny(o, 1);
    EXPECT_LE(one.loss.back(), 0.9 * one.loss.front());
    o.grad_reduce_in_bf16 = false;
    const auto d = test::distance(one, test::run_tiny(o, 1));
    EXPECT_GT(d.grad_norm, 0) << "they are rounded";
    EXPECT_LE(d.loss, 2e-3);
    o.grad_reduce_in_bf16 = true;
    o.parallel.tp = 2;
    o.parallel.sequence_parallel = true;
    for (const char* strategy : {"", "optim", "optim_grads", "optim_grads_params"}) {
      o.sharding_strategy = strategy;
      o.use_megatron_fsdp = std::string(strategy) == "optim_grads_params";
      EXPECT_LE(test::distance(one, test::run_tiny(o, 4)).loss, 2e-3) << strategy;
    }
  }
}

TEST(Bf16Gradients, OfSeveralOptimizerInstancesStayNearThoseOfOne) {
  const TempDir dir;
  auto o = bf16_options(dir);
  o.batch = {16, 1, 16};
  for (const char* strategy : {"optim", "optim_grads", "optim_grads_params"}) {
    o.sharding_strategy = strategy;
    o.use_megatron_fsdp = std::string(strategy) == "optim_grads_params";
    o.parallel.optimizer_instances = 1;
    const auto one = test::run_tiny(o, 4);
    o.parallel.optimizer_instances = 2;
    EXPECT_LE(test::distance(one, test::run_tiny(o, 4)).loss, 2e-3) << strategy;
  }
}

TEST(Bf16Gradients, GiveTheSameBitsAtAnyPipelineDegreeAndAfterAResume) {
  for (const char* family : {"llama", "gpt2"}) {
    const TempDir dir;
    auto o = bf16_options(dir, family);
    o.train_iters = 4;
    o.save = dir / "one";
    test::run_tiny(o, 1);
    o.parallel.pp = 2;
    o.save = dir / "two";
    test::run_tiny(o, 2);
    test::expect_same(dir / "one/iter_0000004", dir / "two/iter_0000004");
    o.save = dir / "halves";
    o.train_iters = 2;
    test::run_tiny(o, 2);
    o.load = dir / "halves";
    o.train_iters = 4;
    o.lr.override_scheduler = true;
    test::run_tiny(o, 2);
    test::expect_same(dir / "one/iter_0000004", dir / "halves/iter_0000004");
  }
}

TEST(Bf16Gradients, AreOfBf16RunsAndExcludeF32Ones) {
  const TempDir dir;
  auto o = bf16_options(dir);
  o.accumulate_allreduce_grads_in_fp32 = true;
  EXPECT_THROW(complete_options(o, 1), Error);
  o.accumulate_allreduce_grads_in_fp32 = false;
  EXPECT_NO_THROW(complete_options(o, 1));
  o.bf16 = false;
  EXPECT_THROW(complete_options(o, 1), Error);
}

}  // namespace
}  // namespace mt
