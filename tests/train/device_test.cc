// Runs on the device under test: within the promised bounds of the CPU's in every kind of layout, and the same bits
// wherever the contract says so. On the CPU itself the first are equalities.

#include "device/backend.h"
#include "device/test_device.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions device_options(const TempDir& dir, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.model.num_layers = 2;
  o.batch = {16, 1, 4};
  o.train_iters = 4;
  return o;
}

Curve on_cpu(TrainingOptions o) {
  o.device = "cpu";
  o.save.clear();
  return test::run_tiny(o, 1);
}

void expect_near(const Curve& want, const Curve& got, double loss, double norm) {
  ASSERT_EQ(got.loss.size(), want.loss.size());
  const auto d = test::distance(want, got);
  EXPECT_LE(d.loss, loss);
  EXPECT_LE(d.grad_norm, norm);
}

TEST(OnTheDevice, LossesOfEveryFamilyStayWithinTheBoundsOfTheCpus) {
  for (const char* family : {"gpt2", "llama", "qwen3"}) {
    SCOPED_TRACE(family);
    const TempDir dir;
    const auto o = device_options(dir, family);
    expect_near(on_cpu(o), test::run_tiny(o, 1), 1e-5, 1e-4);
  }
}

TEST(OnTheDevice, TensorParallelRanksStayWithinTheBounds) {
  const TempDir dir;
  auto o = device_options(dir);
  const Curve want = on_cpu(o);
  o.parallel.tp = 2;
  expect_near(want, test::run_tiny(o, 2), 1e-5, 1e-4);
  o.parallel.sequence_parallel = true;
  expect_near(want, test::run_tiny(o, 2), 1e-5, 1e-4);
}

TEST(OnTheDevice, DataParallelRanksStayWithinTheBoundsAtEveryStageOfZero) {
  constexpr const char* kStrategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  const TempDir dir;
  auto o = device_options(dir, "gpt2");
  const Curve want = on_cpu(o);
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(kStrategies[stage]);
    o.sharding_strategy = kStrategies[stage];
    o.use_megatron_fsdp = stage == 3;
    o.overlap = {stage > 0, stage > 0 && stage < 3};
    expect_near(want, test::run_tiny(o, 2), 1e-5, 1e-4);
  }
}

TEST(OnTheDevice, SumsInRankOrderOverNcclAreThoseThroughTheHostToTheBit) {
  struct Layout {
    const char* name;
    int ranks, tp, pp;
    const char* sharding;
  };
  for (const Layout& l : {Layout{"tensor and sequence", 2, 2, 1, ""}, Layout{"ZeRO 1, overlapped", 2, 1, 1, "optim"},
                          Layout{"ZeRO 3", 2, 1, 1, "optim_grads_params"}, Layout{"pipeline", 2, 1, 2, ""},
                          Layout{"all", 8, 2, 2, "optim"}}) {
    SCOPED_TRACE(l.name);
    if (!test::on_cpu() && cuda_backend().count() < l.ranks) GTEST_SKIP() << "NCCL wants " << l.ranks << " devices";
    const TempDir dir;
    auto o = device_options(dir);
    o.train_iters = 2;
    o.parallel.tp = l.tp;
    o.parallel.pp = l.pp;
    o.parallel.sequence_parallel = l.tp > 1;
    o.sharding_strategy = l.sharding;
    const std::string sharding = l.sharding;
    o.use_megatron_fsdp = sharding == "optim_grads_params";
    o.overlap = {!sharding.empty(), sharding == "optim"};
    o.distributed_backend = "mpi";
    const Curve through_host = test::run_tiny(o, l.ranks);
    o.distributed_backend = "nccl";
    o.deterministic = true;
    const Curve over_nccl = test::run_tiny(o, l.ranks);
    EXPECT_EQ(over_nccl.loss, through_host.loss);
    EXPECT_EQ(over_nccl.grad_norm, through_host.grad_norm);
  }
}

TEST(OnTheDevice, PipelinesSchedulesAndRecomputeChangeNoBit) {
  const TempDir dir;
  auto o = device_options(dir);
  o.save = dir / "flat";
  const Curve flat = test::run_tiny(o, 1);
  expect_near(on_cpu(o), flat, 1e-5, 1e-4);
  const auto same = [&](const TrainingOptions& given, int ranks, const char* name) {
    SCOPED_TRACE(name);
    auto other = given;
    other.save = dir / name;
    const Curve c = test::run_tiny(other, ranks);
    EXPECT_EQ(c.loss, flat.loss);
    EXPECT_EQ(c.grad_norm, flat.grad_norm);
    test::expect_same(dir / "flat/iter_0000004", dir / name / "iter_0000004");
  };
  auto again = o;
  again.recompute = {"full", "uniform", 1, {}, false, false};
  same(again, 1, "recompute");
  auto pipe = o;
  pipe.parallel.pp = 2;
  same(pipe, 2, "1f1b");
  pipe.schedule = "zb-h1";
  same(pipe, 2, "zb-h1");
}

TEST(OnTheDevice, AResumedRunIsTheWholeOneToTheBit) {
  for (const bool async : {false, true}) {
    const TempDir dir;
    auto o = device_options(dir);
    o.bf16 = async;
    o.sharding_strategy = "optim";
    o.async_save = async;
    o.save = dir / "whole";
    test::run_tiny(o, 2);
    o.exit_interval = 2;
    o.save = dir / "parts";
    test::run_tiny(o, 2);
    o.exit_interval = 0;
    o.load = dir / "parts";
    test::run_tiny(o, 2);
    test::expect_same(dir / "whole/iter_0000004", dir / "parts/iter_0000004");
  }
}

TEST(OnTheDevice, ACheckpointGoesFromOneDeviceToTheOther) {
  const TempDir dir;
  auto o = device_options(dir);
  const Curve want = on_cpu(o);
  o.exit_interval = 2;
  for (const bool from_cpu : {true, false}) {
    const std::string first = from_cpu ? "cpu" : test::device_name(), second = from_cpu ? test::device_name() : "cpu";
    auto half = o;
    half.save = dir / (from_cpu ? "from the CPU" : "to the CPU");
    half.device = first;
    Curve both = test::run_tiny(half, 1);
    half.load = half.save;
    half.save.clear();
    half.device = second;
    const Curve rest = test::run_tiny(half, 1);
    both.loss.insert(both.loss.end(), rest.loss.begin(), rest.loss.end());
    both.grad_norm.insert(both.grad_norm.end(), rest.grad_norm.begin(), rest.grad_norm.end());
    expect_near(want, both, 1e-5, 1e-4);
  }
}

TEST(OnTheDevice, EveryUpdateRuleStaysWithinTheBounds) {
  for (const std::string rule : {"sgd", "lion", "muon"}) {
    SCOPED_TRACE(rule);
    const TempDir dir;
    auto o = device_options(dir);
    o.optimizer_names.rule = rule;
    if (rule == "lion") o.lr.lr = 1e-4;
    // Lion's step is a sign, which a last bit may turn.
    expect_near(on_cpu(o), test::run_tiny(o, 1), rule == "lion" ? 1e-4 : 1e-5, rule == "lion" ? 1e-2 : 1e-4);
  }
}

// A rounding that falls the other way is a step of 2^-8 here and there, and of more in fp8.
TEST(OnTheDevice, LowPrecisionStaysAsNearAsItsRoundingAllows) {
  const TempDir dir;
  auto o = device_options(dir);
  o.train_iters = 2;
  o.bf16 = true;
  expect_near(on_cpu(o), test::run_tiny(o, 1), 5e-3, 5e-2);
  o.optimizer_names.precision_aware = true;
  o.optimizer_names.exp_avg_dtype = "fp8";
  o.optimizer_names.exp_avg_sq_dtype = "fp16";
  o.sharding_strategy = "optim";
  expect_near(on_cpu(o), test::run_tiny(o, 2), 5e-3, 5e-2);
  o = device_options(dir);
  o.train_iters = 2;
  o.bf16 = true;
  o.fp8.format = "hybrid";
  o.fp8.amax_history_len = 3;
  for (const char* recipe : {"delayed", "tensorwise", "blockwise"}) {
    SCOPED_TRACE(recipe);
    o.fp8.recipe = recipe;
    expect_near(on_cpu(o), test::run_tiny(o, 1), 2e-2, 2e-1);
  }
  o = device_options(dir);
  o.train_iters = 2;
  o.fp16 = true;
  o.loss_scale.initial = 1024;
  expect_near(on_cpu(o), test::run_tiny(o, 1), 5e-3, 5e-2);
}

// On CUDA the GELU of 16-bit runs is in the products beside it; where it alone is made again it is not.
TEST(OnTheDevice, GeluInTheProductsStaysWithinTheRoundingAndIsMadeAgainToTheBit) {
  const TempDir dir;
  auto o = device_options(dir, "gpt2");
  o.train_iters = 3;
  o.bf16 = true;
  const Curve want = on_cpu(o), flat = test::run_tiny(o, 1);
  expect_near(want, flat, 5e-3, 5e-2);
  auto again = o;
  again.recompute = {"selective", "", {}, {"mlp"}, false, false};
  EXPECT_EQ(test::run_tiny(again, 1).loss, flat.loss);
  again.recompute = {"full", "uniform", 1, {}, false, false};
  EXPECT_EQ(test::run_tiny(again, 1).loss, flat.loss);
  again.recompute = {"selective", "", {}, {"mlp_act"}, false, false};
  expect_near(want, test::run_tiny(again, 1), 5e-3, 5e-2);
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  expect_near(want, test::run_tiny(o, 2), 5e-3, 5e-2);
}

TEST(OnTheDevice, Tf32AndTriedAlgorithmsChangeNoMoreThanTheirRounding) {
  const TempDir dir;
  auto o = device_options(dir, "gpt2");
  const Curve want = on_cpu(o);
  o.gemm_mode.candidates = 4;
  expect_near(want, test::run_tiny(o, 1), 1e-5, 1e-4);
  o.cuda_f32_precision = "tf32";
  const Curve rounded = test::run_tiny(o, 1);
  expect_near(want, rounded, 1e-3, 1e-2);
  if (!test::on_cpu()) {
    EXPECT_GT(test::distance(want, rounded).loss, 1e-7) << "something was rounded";
  }
}

TEST(OnTheDevice, ValidationAmongTheStepsDisturbsNoneOfThem) {
  const TempDir dir;
  auto o = device_options(dir);
  o.eval_interval = 2;
  o.eval_iters = 1;
  o.data.split = "8,1,1";
  expect_near(on_cpu(o), test::run_tiny(o, 1), 1e-5, 1e-4);
}

}  // namespace
}  // namespace mt
