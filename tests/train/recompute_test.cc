// Recompute changes no bit: losses, norms, weights and moments of a run that makes activations again are those of the same
// run without, in every kind of layout, schedule and precision, with dropout and active clipping.

#include "base/error.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

struct Case {
  const char* name;
  const char* family;
  bool bf16;
  int pp, vpp;
  const char* schedule;
  int tp;
  bool sequence_parallel;
  int dp, zero;
  bool deferred = false;
};

constexpr Case kCases[] = {
    {"One", "gpt2", false, 1, 1, "1f1b", 1, false, 1, 0},
    {"OneDeferred", "llama", true, 1, 1, "1f1b", 1, false, 1, 0, true},
    {"Pp2", "llama", true, 2, 1, "1f1b", 1, false, 1, 0},
    {"Pp4Gpipe", "gpt2", false, 4, 1, "gpipe", 1, false, 1, 0},
    {"Pp2V2", "gpt2", true, 2, 2, "interleaved", 1, false, 1, 0},
    {"Pp2ZbH1", "gpt2", false, 2, 1, "zb-h1", 1, false, 1, 0},
    {"Pp2ZbH1TpSp", "llama", true, 2, 1, "zb-h1", 2, true, 1, 0, true},
    {"Tp2", "gpt2", true, 1, 1, "1f1b", 2, false, 1, 0},
    {"Tp2Zb2p", "llama", false, 2, 1, "zb-2p", 2, false, 1, 0},
    {"Tp2Sp", "llama", false, 1, 1, "1f1b", 2, true, 1, 0},
    {"Dp2Zero1", "gpt2", true, 1, 1, "1f1b", 1, false, 2, 1},
    {"Dp2Zero2", "llama", false, 1, 1, "gpipe", 1, false, 2, 2},
    {"Dp2Zero3", "llama", true, 1, 1, "1f1b", 1, false, 2, 3, true},
    {"Pp2Dp2Zero3Zb", "llama", false, 2, 1, "zb-h1", 1, false, 2, 3},
    {"HeadNormPp2ZbH1TpSp", "qwen3", true, 2, 1, "zb-h1", 2, true, 1, 0, true},
    {"HeadNormDp2Zero3", "qwen3", false, 1, 1, "1f1b", 1, false, 2, 3},
    {"Tp2SpDp2Zero3", "llama", true, 1, 1, "1f1b", 2, true, 2, 3},
};

class Recompute : public testing::TestWithParam<const Case*> {};

TrainingOptions options_of(const TempDir& dir, const Case& c) {
  auto o = test::tiny_options(dir, c.family);
  o.train_iters = 2;
  o.bf16 = c.bf16;
  o.schedule = c.schedule;
  o.parallel.pp = c.pp;
  o.parallel.vpp = c.vpp;
  o.parallel.tp = c.tp;
  o.parallel.sequence_parallel = c.sequence_parallel;
  constexpr const char* strategies[] = {"", "optim", "optim_grads", "optim_grads_params"};
  o.sharding_strategy = strategies[c.zero];
  o.use_megatron_fsdp = c.zero == 3;
  o.deferred_stream = o.deferred_stream || c.deferred;
  return o;
}

TEST_P(Recompute, GivesTheBitsOfARunWithout) {
  const Case& c = *GetParam();
  const TempDir dir;
  auto o = options_of(dir, c);
  const int ranks = c.pp * c.tp * c.dp;
  const bool saves = c.dp == 2 && c.zero == 3;  // elsewhere the norms, which are exact sums, speak for all gradients
  if (saves) o.save = dir / "plain";
  const Curve plain = test::run_tiny(o, ranks);
  std::vector<RecomputeOptions> ways{{"selective", "", {}, {}, false, false},
                                     {"selective", "", {}, {"layernorm", "mlp"}, false, false},
                                     {"selective", "", {}, {"core_attn", "mlp_act", "layernorm"}, false, false},
                                     {"full", "uniform", 1, {}, false, false},
                                     {"full", "uniform", std::min(3, o.model.num_layers / (c.pp * c.vpp)), {}, false, false},
                                     {"full", "block", 1, {}, false, false}};
  // A fast pass takes half of them in each layout, so that each meets every kind of layout.
  const auto index = static_cast<std::size_t>(&c - kCases);
  for (std::size_t w = ways.size(); w-- > 0;)
    if ((w + index) % 2 == 1 && std::getenv("MT_TEST_FULL") == nullptr) ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(w));
  if (c.tp > 1 && !c.sequence_parallel) ways.push_back({"full", "uniform", 1, {}, false, true});
  for (std::size_t w = 0; w < ways.size(); ++w) {
    o.recompute = ways[w];
    if (saves) o.save = dir / ("again" + std::to_string(w));
    const Curve again = test::run_tiny(o, ranks);
    EXPECT_EQ(plain.loss, again.loss) << w;
    EXPECT_EQ(plain.grad_norm, again.grad_norm) << w;
    if (!saves) continue;
    test::expect_same(dir / "plain/iter_0000002", test::fs::path(o.save) / "iter_0000002");
  }
}

std::vector<const Case*> all_cases() {
  std::vector<const Case*> all;
  for (const Case& c : kCases) all.push_back(&c);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Runs, Recompute, testing::ValuesIn(all_cases()),
                         [](const auto& c) { return std::string(c.param->name); });

TEST(RecomputeFlags, RefuseWhatDoesNotFitAndSayWhatWould) {
  const TempDir dir;
  const auto base = test::tiny_options(dir, "gpt2");
  const auto refused = [&](const RecomputeOptions& r, const char* want, Code code = Code::config, int tp = 1) {
    auto o = base;
    o.recompute = r;
    o.parallel.tp = tp;
    try {
      complete_options(o, tp);
      ADD_FAILURE() << "accepted, wanted " << want;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(want), std::string::npos) << e.what();
    }
  };
  refused({"half", "", {}, {}, false, false}, "'half' is unknown", Code::usage);
  refused({"full", "blocks", 1, {}, false, false}, "'blocks' is unknown", Code::usage);
  refused({"selective", "", {}, {"attn"}, false, false}, "'attn' is unknown", Code::usage);
  refused({"selective", "", {}, {"moe_act"}, false, false}, "there are no experts");
  refused({"selective", "", {}, {"mla_up_proj"}, false, false}, "no multi-latent attention");
  refused({"selective", "uniform", {}, {}, false, false}, "recompute-method is for");
  refused({"selective", "", 1, {}, false, false}, "recompute-num-layers is for");
  refused({"full", "", 1, {}, false, false}, "needs recompute-method");
  refused({"full", "block", {}, {}, false, false}, "needs recompute-num-layers");
  refused({"full", "block", 0, {}, false, false}, "must be at least 1");
  refused({"full", "block", 1, {"mlp"}, false, false}, "recompute-modules is for");
  refused({"full", "block", 1, {}, true, false}, "recompute-activations means selective");
  refused({"full", "block", 1, {}, false, true}, "without tensor parallelism");
  refused({"selective", "", {}, {}, false, true}, "distribute-saved-activations is for", Code::config, 2);
}

}  // namespace
}  // namespace mt
