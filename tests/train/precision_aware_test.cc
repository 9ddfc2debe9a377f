// Runs whose moments are kept in bf16, f16 and fp8: they learn, resume to the bit, and their checkpoints hold the dtypes.

#include "base/error.h"
#include "ckpt/manifest.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::TempDir;

struct Moments {
  const char *first, *second;
  DType first_dtype, second_dtype;
};
constexpr Moments kMoments[] = {{"bf16", "bf16", DType::bf16, DType::bf16}, {"fp8", "fp16", DType::e4m3, DType::f16}};

TrainingOptions options_of(const TempDir& dir, const Moments& m, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.bf16 = true;
  o.sharding_strategy = "optim";
  o.optimizer.adam.beta2 = 0.95;
  o.optimizer_names.precision_aware = true;
  o.optimizer_names.exp_avg_dtype = m.first;
  o.optimizer_names.exp_avg_sq_dtype = m.second;
  return o;
}

TEST(PrecisionAware, LearnsAsF32MomentsDoInEveryLayout) {
  for (const Moments& m : kMoments) {
    const TempDir dir;
    auto o = options_of(dir, m);
    const auto one = test::run_tiny(o, 1);
    EXPECT_LE(one.loss.back(), 0.9 * one.loss.front());
    auto f32 = o;
    f32.optimizer_names.exp_avg_dtype = f32.optimizer_names.exp_avg_sq_dtype = "fp32";
    EXPECT_LE(test::distance(one, test::run_tiny(f32, 1)).loss, 1e-2) << m.first;
    o.parallel.tp = 2;
    for (const char* strategy : {"optim", "optim_grads_params"}) {
      o.sharding_strategy = strategy;
      o.use_megatron_fsdp = std::string(strategy) == "optim_grads_params";
      EXPECT_LE(test::distance(one, test::run_tiny(o, 4)).loss, 2e-3) << m.first << " " << strategy;
    }
  }
}

TEST(PrecisionAware, CheckpointsHoldTheDtypesAndResumeToTheBit) {
  for (const Moments& m : kMoments) {
    const TempDir dir;
    auto o = options_of(dir, m, "gpt2");
    o.parallel.pp = 2;
    o.train_iters = 4;
    o.save = dir / "whole";
    test::run_tiny(o, 4);
    std::int64_t scales = 0, moments = 0;
    for (const auto& t : read_manifest(dir / "whole/iter_0000004").tensors) {
      moments += t.kind == "exp_avg";
      scales += t.kind == "exp_avg_scale" || t.kind == "exp_avg_sq_scale";
      EXPECT_TRUE(t.kind != "exp_avg" || t.dtype == m.first_dtype) << t.name;
      EXPECT_TRUE(t.kind != "exp_avg_sq" || t.dtype == m.second_dtype) << t.name;
    }
    EXPECT_EQ(scales, m.first_dtype == DType::bf16 ? 0 : 2 * moments);
    o.save = dir / "halves";
    o.train_iters = 2;
    test::run_tiny(o, 4);
    o.load = dir / "halves";
    o.train_iters = 4;
    o.lr.override_scheduler = true;
    const auto same = test::run_tiny(o, 4);
    test::expect_same(dir / "whole/iter_0000004", dir / "halves/iter_0000004");
    o.ckpt_step = 2;
    o.save.clear();
    o.parallel.pp = 1;
    o.parallel.tp = 2;
    EXPECT_NEAR(test::run_tiny(o, 2).loss.back(), same.loss.back(), 2e-3 * same.loss.back());
  }
}

TEST(PrecisionAware, ScaledMomentsAreLoadedAsThemselvesAndOthersAsEachOther) {
  const TempDir dir;
  auto o = options_of(dir, kMoments[1]);
  o.train_iters = 1;
  o.save = dir / "fp8";
  test::run_tiny(o, 1);
  auto b = options_of(dir, kMoments[0]);
  b.train_iters = 1;
  b.save = dir / "bf16";
  test::run_tiny(b, 1);
  b.save.clear();
  b.lr.override_scheduler = true;
  b.train_iters = 2;
  b.load = dir / "fp8";
  try {
    test::run_tiny(b, 1);
    ADD_FAILURE() << "fp8 moments are loaded as bf16";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("keeps exp_avg in e4m3, this run in bf16"), std::string::npos) << e.what();
  }
  b.load = dir / "bf16";
  b.optimizer_names.exp_avg_dtype = b.optimizer_names.exp_avg_sq_dtype = "fp32";
  EXPECT_EQ(test::run_tiny(b, 1).loss.size(), 1u);
}

TEST(PrecisionAware, WhatItCannotDoIsRefused) {
  const TempDir dir;
  const auto says = [&](const std::string& words, const std::function<void(TrainingOptions&)>& change) {
    auto o = options_of(dir, kMoments[0]);
    change(o);
    try {
      complete_options(o, 2);
      ADD_FAILURE() << "accepted, though " << words;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  };
  says("without sharded optimizer state", [](auto& o) { o.sharding_strategy = ""; });
  says("with optimizer lion", [](auto& o) { o.optimizer_names.rule = "lion"; });
  says("exp-avg-dtype bf16 without", [](auto& o) { o.optimizer_names.precision_aware = false; });
  says("master weights are f32", [](auto& o) { o.optimizer_names.main_params_dtype = "fp16"; });
  says("summed in f32", [](auto& o) { o.optimizer_names.main_grads_dtype = "bf16"; });
  auto o = options_of(dir, kMoments[0]);
  o.optimizer_names.main_grads_dtype = "bf16";
  o.grad_reduce_in_bf16 = true;
  EXPECT_NO_THROW(complete_options(o, 2));
}

}  // namespace
}  // namespace mt
