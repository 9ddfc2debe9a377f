// Half precision with a loss scale: what it may change and what not.

#include <cmath>

#include "base/error.h"
#include "ckpt/reader.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions fp16_options(const TempDir& dir, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.fp16 = true;
  o.loss_scale.initial = 4096;
  return o;
}

TEST(LossScale, APowerOfTwoChangesNoBitInBf16) {
  const TempDir dir;
  auto o = test::tiny_options(dir, "gpt2");
  o.bf16 = true;
  o.train_iters = 4;
  o.save = dir / "one";
  const Curve one = test::run_tiny(o, 1);
  o.loss_scale.fixed = 1 << 20;
  o.save = dir / "scaled";
  const Curve scaled = test::run_tiny(o, 1);
  EXPECT_EQ(one.loss, scaled.loss);
  EXPECT_EQ(one.grad_norm, scaled.grad_norm) << "norms and clipping are of the true gradients";
  test::expect_same(dir / "one/iter_0000004", dir / "scaled/iter_0000004");
}

TEST(Fp16, LossesStayWithinTwoThousandthsInEveryLayout) {
  const TempDir dir;
  const auto o = fp16_options(dir);
  const Curve one = test::run_tiny(o, 1);
  EXPECT_LE(one.loss.back(), 0.9 * one.loss.front());
  struct Layout {
    int tp, dp;
    bool sp;
    const char* zero;
  };
  for (const Layout& l : {Layout{2, 1, false, ""}, {2, 2, true, "optim"}, {1, 4, false, "optim_grads"}}) {
    auto many = o;
    many.parallel.tp = l.tp;
    many.parallel.sequence_parallel = l.sp;
    many.sharding_strategy = l.zero;
    EXPECT_LE(test::distance(one, test::run_tiny(many, l.tp * l.dp)).loss, 2e-3);
  }
}

// From 2^32 the first steps overflow: skipped on all ranks alike, whichever rank saw it.
TEST(Fp16, PipelinesRecomputeAndThreadsChangeNoBitThroughOverflows) {
  const TempDir dir;
  auto o = fp16_options(dir, "gpt2");
  o.loss_scale = {{}, 4294967296.0, 1, 3, 1};
  o.train_iters = 24;
  o.non_finite_limit = 3;
  o.save = dir / "one";
  const Curve one = test::run_tiny(o, 1);
  EXPECT_EQ(one.status, 0) << "steps that a smaller scale cures are not counted towards the limit";
  const Json state = read_manifest(dir / "one/iter_0000024").meta.training;
  const auto skipped = state["skipped_steps"].get<int>();
  EXPECT_GE(skipped, 5);
  EXPECT_LE(skipped, 20);
  EXPECT_FALSE(std::isfinite(one.grad_norm.front()));
  EXPECT_EQ(state["optimizer_steps"].get<int>(), 24 - skipped);
  EXPECT_LT(state["loss_scaler"]["scale"].get<double>(), 4294967296.0);
  const auto same = [&](TrainingOptions other, int ranks, const char* name) {
    other.save = dir / name;
    const Curve curve = test::run_tiny(other, ranks);
    EXPECT_EQ(curve.loss, one.loss) << name;
    const auto path = std::filesystem::path(other.save) / "iter_0000024";
    test::expect_same(dir / "one/iter_0000024", path);
    EXPECT_EQ(read_manifest(path).meta.training["loss_scaler"], state["loss_scaler"]) << name;
  };
  auto pipe = o;
  pipe.parallel.pp = 2;
  pipe.schedule = "zb-h1";
  same(pipe, 2, "zb");
  pipe.schedule = "interleaved";
  pipe.parallel.vpp = 2;
  pipe.recompute = {"full", "uniform", 1, {}, false, false};
  same(pipe, 2, "interleaved");
  auto threads = o;
  threads.threads = 3;
  threads.deferred_stream = true;
  same(threads, 1, "threads");
}

TEST(Fp16, AResumeInTheMiddleOfAWindowIsBitwise) {
  const TempDir dir;
  auto o = fp16_options(dir);
  o.loss_scale = {{}, 4194304, 1, 4, 2};
  o.train_iters = 14;
  o.save = dir / "whole";
  test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 9;
  test::run_tiny(o, 1);
  o.exit_interval = 0;
  o.load = dir / "parts";
  test::run_tiny(o, 1);
  test::expect_same(dir / "whole/iter_0000014", dir / "parts/iter_0000014");
  EXPECT_EQ(read_manifest(dir / "whole/iter_0000014").meta.training["loss_scaler"],
            read_manifest(dir / "parts/iter_0000014").meta.training["loss_scaler"]);
}

TEST(Fp16, AnOverflowThatNoSmallerScaleCuresEndsTheRun) {
  const TempDir dir;
  auto o = fp16_options(dir);
  o.loss_scale.fixed = 1e12;
  o.non_finite_limit = 3;
  EXPECT_EQ(test::run_tiny(o, 1).status, static_cast<int>(Code::non_finite_limit));
}

TEST(Fp16, FlagsThatDoNotFitAreRefused) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.loss_scale.fixed = 128;
  EXPECT_THROW(complete_options(o, 1), Error) << "without half precision";
  o = fp16_options(dir);
  o.loss_scale.min = 8192;
  EXPECT_THROW(complete_options(o, 1), Error) << "the least above the first";
}

// 2^-126 to 2^126: there the scale and its inverse are normal numbers of f32.
TEST(Fp16, AScaleWhoseInverseF32CannotHoldIsRefused) {
  const TempDir dir;
  const auto code = [&](double LossScaleOptions::*which, double value) {
    auto o = fp16_options(dir);
    o.loss_scale = {};
    o.loss_scale.*which = value;
    if (which == &LossScaleOptions::initial) o.loss_scale.min = std::min(1.0, value);
    try {
      complete_options(o, 1);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("is beyond f32"), std::string::npos) << e.what();
      return static_cast<int>(e.code());
    }
    return 0;
  };
  const auto fixed = [&](double value, bool bf16) {
    auto o = fp16_options(dir);
    o.fp16 = !bf16, o.bf16 = bf16;
    o.loss_scale.fixed = value;
    try {
      complete_options(o, 1);
    } catch (const Error& e) {
      return static_cast<int>(e.code());
    }
    return 0;
  };
  const double least = std::ldexp(1, -126), most = std::ldexp(1, 126), inf = HUGE_VAL;
  for (const double bad : {1e-300, 1e-40, least * 0.99, most * 1.01, 1e39, inf}) {
    EXPECT_EQ(code(&LossScaleOptions::initial, bad), 3) << bad;
    if (bad < 1) {
      EXPECT_EQ(code(&LossScaleOptions::min, bad), 3) << bad;
    }
    for (const bool bf16 : {false, true}) EXPECT_EQ(fixed(bad, bf16), 3) << bad;
  }
  for (const double good : {least, 0.5, 65536.0, most}) {
    EXPECT_EQ(code(&LossScaleOptions::initial, good), 0) << good;
    for (const bool bf16 : {false, true}) EXPECT_EQ(fixed(good, bf16), 0) << good;
  }
}

// ---- the residual stream in f32 -------------------------------------------------------------------------------

TEST(Fp32Residual, ChangesWhatBf16RoundsAndNothingElse) {
  const TempDir dir;
  auto o = test::tiny_options(dir, "gpt2");
  o.train_iters = 5;
  const Curve exact = test::run_tiny(o, 1);
  o.model.fp32_residual_connection = true;
  EXPECT_EQ(test::run_tiny(o, 1).loss, exact.loss) << "in an f32 model the stream is f32 already";
  o.bf16 = true;
  const Curve wide = test::run_tiny(o, 1);
  o.model.fp32_residual_connection = false;
  const Curve narrow = test::run_tiny(o, 1);
  EXPECT_NE(wide.loss, narrow.loss);
  EXPECT_LT(test::distance(exact, wide).loss, 2e-3);
}

TEST(Fp32Residual, PipelinesAndRecomputeChangeNoBitAndLayoutsLittle) {
  const TempDir dir;
  auto o = test::tiny_options(dir, "llama");
  o.bf16 = o.model.fp32_residual_connection = true;
  o.train_iters = 5;
  const Curve one = test::run_tiny(o, 1);
  auto pipe = o;
  pipe.parallel.pp = 2;
  for (const char* schedule : {"1f1b", "zb-h1"})
    for (const bool again : {false, true}) {
      pipe.schedule = schedule;
      pipe.recompute = again ? RecomputeOptions{"full", "block", 1, {}, false, false} : RecomputeOptions{};
      const Curve curve = test::run_tiny(pipe, 2);
      EXPECT_EQ(curve.loss, one.loss) << schedule << again;
      EXPECT_EQ(curve.grad_norm, one.grad_norm) << schedule << again;
    }
  auto mixed = o;
  mixed.parallel.tp = 2;
  mixed.parallel.sequence_parallel = true;
  mixed.use_megatron_fsdp = true;
  EXPECT_LE(test::distance(one, test::run_tiny(mixed, 4)).loss, 2e-3);
  mixed.parallel.sequence_parallel = false;
  mixed.recompute = {"full", "uniform", 2, {}, false, true};
  EXPECT_LE(test::distance(one, test::run_tiny(mixed, 2)).loss, 2e-3);
}

}  // namespace
}  // namespace mt
