// Pipelines change no bit: every degree, schedule and number of virtual stages gives the weights, moments and losses of
// one stage, tied or not, with dropout and active clipping; also beside tp, dp and ZeRO 1, and across a resume.

#include "base/error.h"
#include "base/files.h"
#include "schedule/text_form.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::expect_same;
using test::TempDir;

struct Pipeline {
  int pp, vpp;
  const char* schedule;
};

std::string pipeline_name(const testing::TestParamInfo<Pipeline>& info) {
  std::string s = std::string(info.param.schedule) + "Pp" + std::to_string(info.param.pp) + "V" +
                  std::to_string(info.param.vpp);
  std::erase(s, '-');
  return s;
}

TrainingOptions with(TrainingOptions o, const Pipeline& p) {
  o.parallel.pp = p.pp;
  o.parallel.vpp = p.vpp;
  o.schedule = p.schedule;
  return o;
}

TrainingOptions base_options(const TempDir& dir, const std::string& family, bool bf16) {
  auto o = test::tiny_options(dir, family);
  o.train_iters = 6;
  o.bf16 = bf16;
  o.eval_interval = 3;
  o.eval_iters = 1;
  return o;
}

class Pipelines : public testing::TestWithParam<Pipeline> {};

TEST_P(Pipelines, GiveTheBitsOfOneStage) {
  for (const auto& [family, bf16] : {std::pair{"gpt2", false}, {"llama", true}}) {
    const TempDir dir;
    auto o = base_options(dir, family, bf16);
    o.save = dir / "one";
    const Curve one = test::run_tiny(o, 1);
    o.save = dir / "many";
    const Curve many = test::run_tiny(with(o, GetParam()), GetParam().pp);
    EXPECT_EQ(one.loss, many.loss);
    EXPECT_EQ(one.grad_norm, many.grad_norm);
    expect_same(dir / "one/iter_0000006", dir / "many/iter_0000006");
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pipelines,
                         testing::Values(Pipeline{2, 1, "1f1b"}, Pipeline{4, 1, "1f1b"}, Pipeline{2, 1, "gpipe"},
                                         Pipeline{2, 2, "interleaved"}, Pipeline{2, 1, "zb-h1"},
                                         Pipeline{4, 1, "zb-h2"}, Pipeline{2, 1, "zb-2p"}, Pipeline{2, 2, "zb-v"},
                                         Pipeline{2, 2, "dualpipe-v"}),
                         pipeline_name);

// What flags make of the split; the number of ranks is the pipeline's.
struct Split {
  const char* name;
  int pp, vpp;
  PipelineSplit split;
  const char* stages;  // as the layout string
};

PipelineSplit by_layout(const char* layout) {
  PipelineSplit s;
  s.layout = layout;
  return s;
}

std::vector<Split> splits() {
  PipelineSplit first, counted;
  first.first_layers = 3;
  counted.count_embedding = counted.count_loss = true;
  return {{"first 3 of 4", 2, 1, first, "Et*3|tL"},
          {"embedding and loss counted", 3, 1, counted, "Et|tt|tL"},
          {"ends without layers", 3, 1, by_layout("E|t*4|L"), "E|t*4|L"},
          {"two chunks a rank", 2, 2, by_layout("Et|tt|,t|L"), "Et|tt|t|L"},
          {"a stage of nothing", 4, 1, by_layout("Ett||t|tL"), "Ett||t|tL"}};
}

TEST(UnevenPipelines, GiveTheBitsOfOneStage) {
  for (const auto& [family, bf16] : {std::pair{"gpt2", true}, {"llama", false}}) {
    const TempDir dir;
    auto o = base_options(dir, family, bf16);
    o.train_iters = 3;
    o.save = dir / "one";
    const Curve one = test::run_tiny(o, 1);
    for (const Split& s : splits()) {
      SCOPED_TRACE(s.name);
      fs::remove_all(dir / "many");
      o.save = dir / "many";
      o.split = s.split;
      auto parted = with(o, {s.pp, 1, ""});
      EXPECT_EQ(pipeline_layout_text(complete_options(parted, s.pp).parallel.stage_layers), s.stages);
      EXPECT_EQ(complete_options(parted, s.pp).parallel.vpp, s.vpp);
      const Curve many = test::run_tiny(parted, s.pp);
      EXPECT_EQ(one.loss, many.loss);
      EXPECT_EQ(one.grad_norm, many.grad_norm);
      expect_same(dir / "one/iter_0000003", dir / "many/iter_0000003");
    }
  }
}

TEST(UnevenPipelines, ChangeOnResumeAndWithTheBackwardSplit) {
  const TempDir dir;
  auto o = base_options(dir, "gpt2", false);
  o.save = dir / "whole";
  test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 2;
  o.split = by_layout("Ett|t||tL");
  test::run_tiny(with(o, {4, 1, "zb-h1"}), 4);
  o.exit_interval = 4;
  o.load = dir / "parts";
  o.split = by_layout("Et*3|tL");
  test::run_tiny(with(o, {2, 1, "zb-2p"}), 2);
  o.exit_interval = 0;
  o.split = {};
  test::run_tiny(with(o, {2, 2, "interleaved"}), 2);
  expect_same(dir / "whole/iter_0000006", dir / "parts/iter_0000006");
}

TEST(PipelineMix, WithTpSpDpAndZeroIsBitwiseTheSameMixWithoutPipeline) {
  const TempDir dir;
  auto o = base_options(dir, "gpt2", true);
  o.train_iters = 3;
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  o.use_distributed_optimizer = true;
  o.save = dir / "flat";
  const Curve flat = test::run_tiny(o, 4);  // tp 2, dp 2
  o.save = dir / "pipe";
  const Curve pipe = test::run_tiny(with(o, {2, 1, "1f1b"}), 8);
  EXPECT_EQ(flat.loss, pipe.loss);
  expect_same(dir / "flat/iter_0000003", dir / "pipe/iter_0000003");
}

TEST(PipelineMix, ZeroThreeBesideAPipelineStaysWithinTheBounds) {
  const TempDir dir;
  auto o = base_options(dir, "llama", false);
  o.eval_interval = 0;
  const Curve one = test::run_tiny(o, 1);
  o.sharding_strategy = "optim_grads_params";
  o.use_megatron_fsdp = true;
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const auto d = test::distance(one, test::run_tiny(with(o, {2, 1, schedule}), 4));
    EXPECT_LE(d.loss, test::kLossBound) << schedule;
    EXPECT_LE(d.grad_norm, test::kNormBound) << schedule;
  }
}

// A tied embedding on two stages, or on one by two chunks: each side's gradient is summed over dp alone, micro-batch by
// micro-batch, whatever the order of the sides.
TEST(PipelineMix, ShardedGradientsOfTiedEmbeddingsAreBitwiseThoseWithoutPipeline) {
  for (const auto& [stage, bf16] : {std::pair{2, true}, {3, false}}) {
    const TempDir dir;
    auto o = base_options(dir, "gpt2", bf16);
    o.train_iters = 4;
    o.batch = {16, 1, 16};
    o.parallel.tp = 2;
    o.parallel.sequence_parallel = true;
    o.sharding_strategy = stage == 3 ? "optim_grads_params" : "optim_grads";
    o.use_megatron_fsdp = stage == 3;
    o.save = dir / "flat";
    const Curve flat = test::run_tiny(o, 4);  // tp 2, dp 2
    for (const Pipeline& p : {Pipeline{2, 1, "1f1b"}, {2, 1, "zb-h1"}, {2, 2, "interleaved"}, {2, 2, "zb-v"},
                              {2, 2, "dualpipe-v"}}) {
      SCOPED_TRACE(fmt::format("ZeRO {}, {}", stage, p.schedule));
      fs::remove_all(dir / "pipe");
      o.save = dir / "pipe";
      const Curve pipe = test::run_tiny(with(o, p), 8);
      EXPECT_EQ(flat.loss, pipe.loss);
      EXPECT_EQ(flat.grad_norm, pipe.grad_norm);
      expect_same(dir / "flat/iter_0000004", dir / "pipe/iter_0000004");
    }
    o.parallel.tp = 1, o.parallel.sequence_parallel = false, o.sharding_strategy = "no_shard", o.use_megatron_fsdp = false;
    o.save = "";
    const auto d = test::distance(test::run_tiny(o, 1), flat);
    EXPECT_LE(d.loss, bf16 ? 2e-3 : test::kLossBound);
    EXPECT_LE(d.grad_norm, bf16 ? 1 : test::kNormBound);
  }
}

// A V over more ranks than two, tied, where the last rank hands over to itself and the first holds both sides.
TEST(PipelineMix, AVWithSequenceParallelAndZeroIsTheSameMixWithoutPipeline) {
  const TempDir dir;
  auto o = base_options(dir, "gpt2", true);
  o.train_iters = 3;
  o.model.num_layers = 8;
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  o.use_distributed_optimizer = true;
  o.save = dir / "flat";
  const Curve flat = test::run_tiny(o, 4);  // tp 2, dp 2
  o.save = dir / "v";
  o.parallel.pp = 4;
  o.schedule = "zb-v";
  const Curve v = test::run_tiny(o, 16);
  EXPECT_EQ(flat.loss, v.loss);
  expect_same(dir / "flat/iter_0000003", dir / "v/iter_0000003");
}

TEST(PipelineMix, AScheduleFromAFileIsWalkedAndAWrongOneRefused) {
  const TempDir dir;
  auto o = base_options(dir, "llama", false);
  o.train_iters = 3;
  o.eval_interval = 0;
  const Curve one = test::run_tiny(o, 1);
  const int m = complete_options(o, 1).batch.num_micro_batches({});
  const std::string file = (dir / "own.tsv").string();
  for (const char* name : {"gpipe", "zb-h1", "zb-v"}) {
    write_file_atomic(file, write_schedule(make_schedule(name, {.pp = 2, .num_micro_batches = m})));
    EXPECT_EQ(one.loss, test::run_tiny(with(o, {2, 1, file.c_str()}), 2).loss) << name;
  }
  write_file_atomic(file, write_schedule(make_schedule("1f1b", {.pp = 2, .num_micro_batches = m + 1})));
  EXPECT_THROW(complete_options(with(o, {2, 1, file.c_str()}), 2), Error);
}

TEST(PipelineMix, ACheckpointMovesBetweenPipelines) {
  const TempDir dir;
  auto o = base_options(dir, "gpt2", false);
  o.save = dir / "whole";
  test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 3;
  test::run_tiny(with(o, {4, 1, "1f1b"}), 4);
  o.exit_interval = 0;
  o.load = dir / "parts";
  test::run_tiny(with(o, {2, 2, "interleaved"}), 2);
  expect_same(dir / "whole/iter_0000006", dir / "parts/iter_0000006");
}

TEST(PipelineRefusals, SayWhatIsWrongAndWhatWouldDo) {
  const TempDir dir;
  const auto base = base_options(dir, "gpt2", false);
  const auto refused = [&](const TrainingOptions& o, int world, const char* want) {
    try {
      complete_options(o, world);
      ADD_FAILURE() << "accepted, wanted " << want;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config) << e.what();
      EXPECT_NE(std::string(e.what()).find(want), std::string::npos) << e.what();
    }
  };
  refused(with(base, {3, 1, ""}), 3, "num-layers 4 is not divisible by pp");
  refused(with(base, {3, 1, ""}), 3, "--pipeline-model-parallel-layout 'Et|tt|tL'");
  auto split = with(base, {2, 1, ""});
  split.split = by_layout("Ett|tttL");
  refused(split, 2, "has 5 layers (letters t), num-layers is 4");
  refused(with(base, {2, 1, "dualpipe"}), 2, "two copies of the weights");
  refused(with(base, {1, 2, ""}), 1, "num-virtual-stages-per-pipeline-rank 2");
}

}  // namespace
}  // namespace mt
