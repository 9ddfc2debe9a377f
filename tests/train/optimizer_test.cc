// Runs with SGD, Lion and Muon: layout-free, resumed to the bit, reshaped through checkpoints, and refused where the
// state is another rule's.

#include "base/error.h"
#include "ckpt/manifest.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::TempDir;

// Some rate at which each rule learns, and neither jumps.
TrainingOptions options_of(const TempDir& dir, const std::string& rule, const std::string& family = "llama") {
  auto o = test::tiny_options(dir, family);
  o.optimizer_names.rule = rule;
  o.lr.lr = rule == "sgd" ? 0.1 : 1e-3;
  o.optimizer.muon.nesterov = true;
  return o;
}

struct Layout {
  int tp, pp, dp;
  const char* strategy;
};

TrainingOptions at(TrainingOptions o, const Layout& l) {
  o.parallel.tp = l.tp;
  o.parallel.pp = l.pp;
  o.parallel.sequence_parallel = l.tp > 1;
  o.sharding_strategy = l.strategy;
  o.use_megatron_fsdp = o.sharding_strategy == "optim_grads_params";
  return o;
}

class Rules : public testing::TestWithParam<const char*> {};

TEST_P(Rules, LearnTheSameInEveryLayout) {
  const TempDir dir;
  const auto o = options_of(dir, GetParam());
  const auto one = test::run_tiny(o, 1);
  EXPECT_LE(one.loss.back(), 0.9 * one.loss.front());
  for (const Layout& l : {Layout{2, 1, 1, ""}, {1, 1, 2, ""}, {1, 1, 2, "optim"}, {2, 2, 1, ""}, {2, 1, 2, "optim_grads"},
                          {1, 1, 2, "optim_grads_params"}}) {
    const auto d = test::distance(one, test::run_tiny(at(o, l), l.tp * l.pp * l.dp));
    EXPECT_LE(d.loss, test::kLossBound) << "tp " << l.tp << " pp " << l.pp << " dp " << l.dp << l.strategy;
    EXPECT_LE(d.grad_norm, test::kNormBound) << "tp " << l.tp << " pp " << l.pp << " dp " << l.dp << l.strategy;
  }
}

TEST_P(Rules, GiveTheSameBitsAtAnyPipelineDegree) {
  const TempDir dir;
  auto o = options_of(dir, GetParam(), "gpt2");
  o.bf16 = true;
  o.train_iters = 5;
  o.save = dir / "one";
  test::run_tiny(o, 1);
  o.save = dir / "two";
  test::run_tiny(at(o, {1, 2, 1, ""}), 2);
  test::expect_same(dir / "one/iter_0000005", dir / "two/iter_0000005");
}

TEST_P(Rules, ResumeToTheBitAndInAnotherLayout) {
  const TempDir dir;
  auto o = at(options_of(dir, GetParam()), {2, 1, 2, "optim"});
  o.bf16 = true;
  o.train_iters = 6;
  o.save = dir / "whole";
  test::run_tiny(o, 4);
  o.save = dir / "halves";
  o.train_iters = 3;
  test::run_tiny(o, 4);
  o.load = dir / "halves";
  o.train_iters = 6;
  o.lr.override_scheduler = true;
  const auto same = test::run_tiny(o, 4);
  test::expect_same(dir / "whole/iter_0000006", dir / "halves/iter_0000006");
  // And into a layout that cuts everything otherwise, where the first step's loss is the same.
  o.ckpt_step = 3;
  o.save.clear();
  for (const Layout& l : {Layout{1, 2, 1, ""}, {4, 1, 1, ""}, {1, 1, 2, "optim_grads_params"}}) {
    const auto other = test::run_tiny(at(o, l), l.tp * l.pp * l.dp);
    EXPECT_NEAR(other.loss.back(), same.loss.back(), 2e-3 * same.loss.back());
  }
}

// Two instances of two ranks: matrices are gathered inside one.
TEST_P(Rules, LearnTheSameInSeveralOptimizerInstances) {
  const TempDir dir;
  auto o = options_of(dir, GetParam());
  o.train_iters = 8;
  const auto one = test::run_tiny(o, 1);
  o = at(o, {2, 1, 4, "optim"});
  o.parallel.optimizer_instances = 2;
  const auto d = test::distance(one, test::run_tiny(o, 8));
  const double scale = std::string(GetParam()) == "sgd" ? 1 : 10;
  EXPECT_LE(d.loss, scale * test::kLossBound);
  EXPECT_LE(d.grad_norm, scale * test::kNormBound);
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::Values("sgd", "lion", "muon"));

std::set<std::string> kinds_in(const std::filesystem::path& dir) {
  std::set<std::string> out;
  for (const auto& t : read_manifest(dir).tensors) out.insert(t.kind);
  return out;
}

TEST(UpdateRuleCheckpoints, HoldWhatTheRuleKeepsAndAreLoadedByItAlone) {
  const TempDir dir;
  using Kinds = std::set<std::string>;
  const std::map<std::string, Kinds> want{{"adam", {"weight", "exp_avg", "exp_avg_sq"}},
                                          {"sgd", {"weight", "momentum_buffer"}},
                                          {"lion", {"weight", "exp_avg"}},
                                          {"muon", {"weight", "momentum_buffer", "exp_avg", "exp_avg_sq"}}};
  for (const auto& [rule, kinds] : want) {
    auto o = options_of(dir, rule);
    o.train_iters = 1;
    o.save = dir / rule;
    test::run_tiny(o, 1);
    EXPECT_EQ(kinds_in(dir / rule / "iter_0000001"), kinds) << rule;
    o.save.clear();
    o.load = dir / rule;
    o.train_iters = 2;
    o.lr.override_scheduler = true;
    o.optimizer_names.rule = rule == "lion" ? "adam" : "lion";
    try {
      test::run_tiny(o, 1);
      ADD_FAILURE() << rule << " is loaded by " << o.optimizer_names.rule;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config);
      EXPECT_NE(std::string(e.what()).find("holds the state of " + rule), std::string::npos) << e.what();
    }
    o.no_load_optim = true;
    EXPECT_EQ(test::run_tiny(o, 1).loss.size(), 1u);
  }
}

TEST(UpdateRuleOptions, BlockwiseMuonUnderTensorParallelismIsToldToDependOnIt) {
  const TempDir dir;
  auto o = options_of(dir, "muon");
  o.optimizer_names.muon_tp_mode = "blockwise";
  EXPECT_TRUE(complete_options(o, 1).notices.empty());
  o.parallel.tp = 2;
  const auto notices = complete_options(o, 2).notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("depend on tensor-model-parallel-size"), std::string::npos);
}

}  // namespace
}  // namespace mt
