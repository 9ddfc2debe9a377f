// fp8 products in training: what they change, what not, and how the scales travel.

#include "base/error.h"
#include "ckpt/reader.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions fp8_options(const TempDir& dir, const std::string& recipe, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.bf16 = true;
  o.fp8.format = "hybrid";
  o.fp8.recipe = recipe;
  o.fp8.amax_history_len = 3;
  o.fp8.amax_compute_algo = "max";
  o.train_iters = 5;
  return o;
}

class Fp8Recipe : public testing::TestWithParam<const char*> {};

TEST_P(Fp8Recipe, LearnsAndStaysNearBf16) {
  const TempDir dir;
  auto o = fp8_options(dir, GetParam());
  o.train_iters = 20;
  const Curve fp8 = test::run_tiny(o, 1);
  EXPECT_LE(fp8.loss.back(), 0.9 * fp8.loss.front());
  o.fp8.format = "";
  const auto d = test::distance(test::run_tiny(o, 1), fp8);
  EXPECT_GT(d.loss, 0) << "something was rounded";
  EXPECT_LT(d.loss, 2e-2);
}

TEST_P(Fp8Recipe, PipelinesRecomputeAndThreadsChangeNoBit) {
  const TempDir dir;
  auto o = fp8_options(dir, GetParam(), "gpt2");
  o.save = dir / "one";
  const Curve one = test::run_tiny(o, 1);
  const Json amax = read_manifest(dir / "one/iter_0000005").meta.training.value("fp8_amax", Json());
  EXPECT_EQ(amax.is_null(), std::string(GetParam()) != "delayed");
  const auto same = [&](TrainingOptions other, int ranks, const char* name) {
    other.save = dir / name;
    EXPECT_EQ(test::run_tiny(other, ranks).loss, one.loss) << name;
    const auto path = test::fs::path(other.save) / "iter_0000005";
    test::expect_same(dir / "one/iter_0000005", path);
    EXPECT_EQ(read_manifest(path).meta.training.value("fp8_amax", Json()), amax) << name;
  };
  auto pipe = o;
  pipe.parallel.pp = 2;
  pipe.schedule = "zb-h1";
  pipe.recompute = {"full", "uniform", 2, {}, false, false};
  same(pipe, 2, "zb");
  auto again = o;
  again.recompute = {"selective", "", {}, {"mlp", "layernorm", "core_attn"}, false, false};
  again.threads = 3;
  again.deferred_stream = true;
  same(again, 1, "again");
}

// Scales are equal in every layout, so that layouts differ by what bf16 rounds otherwise; rounding to fp8 then turns a last
// bit into a step of fp8 here and there. The bounds are those of mt-train(1).
TEST_P(Fp8Recipe, LayoutsStayWithinTheirBound) {
  const TempDir dir;
  auto o = fp8_options(dir, GetParam());
  const std::string recipe = GetParam();
  if (recipe == "blockwise") {  // whole blocks for each of two ranks
    o.model.hidden_size = 256;
    o.model.num_attention_heads = 4;
    o.model.ffn_hidden_size = 256;
    o.model.num_query_groups = 4;
    o.train_iters = 3;
  }
  const Curve one = test::run_tiny(o, 1);
  const auto distance = [&](int tp, int pp, const char* sharding) {
    auto other = o;
    other.parallel.tp = tp;
    other.parallel.sequence_parallel = tp > 1;
    other.parallel.pp = pp;
    other.sharding_strategy = sharding;
    other.use_megatron_fsdp = std::string(sharding) == "optim_grads_params";
    return test::distance(one, test::run_tiny(other, 4));
  };
  const double over_tp = recipe == "delayed" ? 2e-2 : 1e-2, over_dp = 5e-3;
  EXPECT_LE(distance(2, 1, "optim").loss, over_tp);
  EXPECT_LE(distance(2, 2, "no_shard").loss, over_tp);
  EXPECT_LE(distance(1, 2, "optim_grads").loss, over_dp);
  EXPECT_LE(distance(1, 1, "optim_grads_params").loss, over_dp);
}

// ZeRO 3 rounds a weight for every product, stage 2 once a step; nothing else is between them.
TEST_P(Fp8Recipe, WeightsRoundedOnceAStepChangeNoBit) {
  const TempDir dir;
  auto o = fp8_options(dir, GetParam());
  o.sharding_strategy = "optim_grads";
  const Curve kept = test::run_tiny(o, 2);
  o.sharding_strategy = "optim_grads_params";
  o.use_megatron_fsdp = true;
  EXPECT_EQ(test::run_tiny(o, 2).loss, kept.loss);
}

TEST_P(Fp8Recipe, AResumeIsBitwise) {
  const TempDir dir;
  auto o = fp8_options(dir, GetParam());
  o.fp8.weight_gradients = false;
  o.save = dir / "whole";
  test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 3;
  test::run_tiny(o, 1);
  o.exit_interval = 0;
  o.load = dir / "parts";
  test::run_tiny(o, 1);
  test::expect_same(dir / "whole/iter_0000005", dir / "parts/iter_0000005");
}

INSTANTIATE_TEST_SUITE_P(Recipes, Fp8Recipe, testing::Values("delayed", "tensorwise", "blockwise"),
                         [](const auto& c) { return std::string(c.param); });

TEST(Fp8Layers, FirstAndLastOnesStayInBf16) {
  const TempDir dir;
  auto o = fp8_options(dir, "tensorwise");
  const Curve all = test::run_tiny(o, 1);
  o.fp8.first_last_layers_bf16 = true;
  const Curve inner = test::run_tiny(o, 1);
  EXPECT_NE(all.loss, inner.loss);
  o.fp8.num_layers_at_start_in_bf16 = o.fp8.num_layers_at_end_in_bf16 = 2;  // of four: all
  const Curve none = test::run_tiny(o, 1);
  o.fp8.format = "";
  EXPECT_EQ(test::run_tiny(o, 1).loss, none.loss);
}

TEST(Fp8Flags, RefuseWhatDoesNotFit) {
  const TempDir dir;
  const auto refused = [&](const std::function<void(TrainingOptions&)>& change, const char* want, Code code = Code::config) {
    auto o = fp8_options(dir, "tensorwise");
    change(o);
    try {
      complete_options(o, o.parallel.tp);
      ADD_FAILURE() << "accepted, wanted " << want;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(want), std::string::npos) << e.what();
    }
  };
  refused([](auto& o) { o.fp8.format = "e5m2"; }, "'e5m2' is unknown", Code::usage);
  refused([](auto& o) { o.fp8.recipe = "later"; }, "'later' is unknown", Code::usage);
  refused([](auto& o) { o.fp8.amax_compute_algo = "mean"; }, "'mean' is unknown", Code::usage);
  refused([](auto& o) { o.fp8.recipe = "mxfp8"; }, "mxfp8 is not here");
  refused([](auto& o) { o.bf16 = false; }, "bf16 run");
  refused([](auto& o) { o.fp8.recipe = "delayed", o.fp8.first_last_layers_bf16 = true; }, "first-last-layers-bf16");
  refused([](auto& o) { o.fp8.recipe = "blockwise", o.parallel.tp = 2; }, "whole blocks of 128");
}

}  // namespace
}  // namespace mt
