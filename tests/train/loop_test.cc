// The loop itself: resume bitwise, threads, deferred streams, non-finite gradients, sample order, refusals.

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/diff.h"
#include "ckpt/iterations.h"
#include "ckpt/reader.h"
#include "registry/event_log.h"
#include "train/batch_source.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

void expect_same_checkpoint(const fs::path& a, const fs::path& b) {
  int compared = 0;
  diff_checkpoints(Reader(a), Reader(b), {}, [&](const TensorDifference& d) {
    EXPECT_EQ(d.kind_of, TensorDifference::Kind::same) << d.text;
    return ++compared > 0;
  });
  EXPECT_GT(compared, 30);
}

void expect_same_steps(const Curve& whole, std::size_t from, const Curve& part) {
  ASSERT_EQ(whole.loss.size(), from + part.loss.size());
  for (std::size_t i = 0; i < part.loss.size(); ++i) {
    EXPECT_EQ(whole.loss[from + i], part.loss[i]) << "step " << from + i + 1;
    EXPECT_EQ(whole.grad_norm[from + i], part.grad_norm[i]) << "step " << from + i + 1;
  }
}

class Resume : public testing::TestWithParam<bool> {};  // bf16

TEST_P(Resume, TenAndTenStepsAreTwentyStepsBitwise) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.bf16 = GetParam();
  o.eval_interval = 5;
  o.eval_iters = 1;
  o.save = dir / "whole";
  const Curve whole = test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 10;
  test::run_tiny(o, 1);
  o.exit_interval = 0;
  o.load = dir / "parts";
  const Curve rest = test::run_tiny(o, 1);
  expect_same_steps(whole, 10, rest);
  expect_same_checkpoint(dir / "whole/iter_0000020", dir / "parts/iter_0000020");
}

INSTANTIATE_TEST_SUITE_P(Precision, Resume, testing::Bool(), [](const auto& i) { return i.param ? "bf16" : "f32"; });

TEST(Record, ARunThatAnErrorEndsSaysWhichInItsRecord) {
  const TempDir dir;
  const auto o = test::tiny_options(dir);
  TrainerHooks hooks;
  hooks.after_step = [](std::int64_t iteration, double, double) {
    if (iteration == 3) throw Error(Code::io, "the disk is gone");
  };
  EXPECT_THROW(test::run_tiny(o, 1, hooks), Error);
  const RunRecord record = read_event_log(o.metrics_file);
  EXPECT_TRUE(record.ended);
  ASSERT_EQ(record.ends.size(), 1u);
  EXPECT_EQ(record.ends[0]["status"], "io");
}

TEST(Resume, InAnotherLayoutContinuesWithinTheBounds) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  const Curve whole = test::run_tiny(o, 1);
  o.save = dir / "parts";
  o.exit_interval = 10;
  test::run_tiny(o, 1);
  o.exit_interval = 0;
  o.load = dir / "parts";
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  const Curve rest = test::run_tiny(o, 4);
  ASSERT_EQ(rest.loss.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(rest.loss[i], whole.loss[10 + i], test::kLossBound * whole.loss[10 + i]);
}

// Whatever is sharded how: a checkpoint of one ZeRO stage is a start for every other.
TEST(Resume, AcrossZeroStagesIsBitwiseWhereTheSumsAreTheSame) {
  const TempDir dir;
  auto o = test::tiny_options(dir, "gpt2");
  o.bf16 = true;
  o.train_iters = 6;
  o.exit_interval = 3;
  o.save = dir / "plain";
  test::run_tiny(o, 2);
  o.exit_interval = 0;
  o.load = dir / "plain";
  o.ckpt_step = 3;
  constexpr const char* strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  std::map<int, Curve> curves;
  for (int stage = 0; stage < 4; ++stage) {
    o.sharding_strategy = strategies[stage];
    o.use_megatron_fsdp = stage == 3;
    o.save = dir / strategies[stage];
    curves[stage] = test::run_tiny(o, 2);
  }
  expect_same_steps(curves[0], 0, curves[1]);
  expect_same_checkpoint(dir / "no_shard/iter_0000006", dir / "optim/iter_0000006");
  expect_same_steps(curves[2], 0, curves[3]);
  expect_same_checkpoint(dir / "optim_grads/iter_0000006", dir / "optim_grads_params/iter_0000006");
  EXPECT_LE(test::distance(curves[0], curves[2]).loss, 2e-3);
  // And back: sharded state into a run that shards nothing.
  o.load = dir / "optim_grads_params";
  o.ckpt_step.reset();
  o.train_iters = 8;
  o.lr.override_scheduler = true;
  for (int ranks : {1, 2}) {
    o.sharding_strategy = "no_shard";
    o.use_megatron_fsdp = false;
    o.save = dir / ("back" + std::to_string(ranks));
    EXPECT_EQ(test::run_tiny(o, ranks).loss.size(), 2u);
  }
}

TEST(Resume, OtherScheduleOptionsAreRefusedUnlessAskedFor) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 2;
  o.save = dir / "run";
  test::run_tiny(o, 1);
  o.load = dir / "run";
  o.train_iters = 3;
  o.lr.lr = 5e-4;
  try {
    test::run_tiny(o, 1);
    FAIL() << "another learning rate was taken in silence";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(std::string(e.what()).find("--lr is 0.0005 here and 0.001 in the checkpoint"), std::string::npos) << e.what();
  }
  o.lr.override_scheduler = true;
  EXPECT_EQ(test::run_tiny(o, 1).loss.size(), 1u);
}

TEST(Threads, ARunIsBitwiseEqualAtOneTwoAndThreeThreads) {
  for (bool bf16 : {false, true}) {
    const TempDir dir;
    auto o = test::tiny_options(dir, "gpt2");
    o.bf16 = bf16;
    o.train_iters = 5;
    std::map<int, Curve> curves;
    for (int threads : {1, 2, 3}) {
      o.threads = threads;
      o.save = dir / std::to_string(threads);
      curves[threads] = test::run_tiny(o, 1);
    }
    for (int threads : {2, 3}) {
      expect_same_steps(curves[1], 0, curves[threads]);
      expect_same_checkpoint(dir / "1/iter_0000005", dir / (std::to_string(threads) + "/iter_0000005"));
    }
  }
}

TEST(Streams, ADeferredStreamGivesTheSameBits) {
  const TempDir dir;
  auto o = test::tiny_options(dir, "gpt2");
  o.train_iters = 4;
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  const Curve now = test::run_tiny(o, 4);
  o.deferred_stream = true;
  expect_same_steps(now, 0, test::run_tiny(o, 4));
}

TEST(Schedules, GpipeGivesTheBitsOf1f1b) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 3;
  const Curve a = test::run_tiny(o, 1);
  o.schedule = "gpipe";
  expect_same_steps(a, 0, test::run_tiny(o, 1));
}

// ---- non-finite gradients ------------------------------------------------------------------------------------

TrainerHooks poison(std::int64_t from, std::int64_t to, float value) {
  TrainerHooks hooks;
  hooks.after_backward = [=](std::int64_t i, ParameterStore& store) {
    if (i >= from && i <= to) test::set_float(store, store.grad(3), 1, value);
  };
  return hooks;
}

TEST(NonFinite, OneStepIsSkippedCountedAndChangesNoWeight) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const TempDir dir;
    auto o = test::tiny_options(dir);
    o.train_iters = 6;
    o.save = dir / "run";
    o.save_interval = 4;
    std::vector<float> before, after;
    auto hooks = poison(5, 5, bad);
    const auto planted = hooks.after_backward;
    hooks.after_backward = [&](std::int64_t i, ParameterStore& store) {
      planted(i, store);
      if (i == 5) before = test::floats_of(store, store.weight(1));
      if (i == 6) after = test::floats_of(store, store.weight(1));
    };
    const Curve c = test::run_tiny(o, 1, hooks);
    EXPECT_EQ(c.status, 0);
    EXPECT_FALSE(std::isfinite(c.grad_norm[4]));
    EXPECT_EQ(before, after);
    const Manifest m = read_manifest(dir / "run/iter_0000006");
    EXPECT_EQ(m.meta.training["skipped_steps"], 1);
    EXPECT_EQ(m.meta.training["optimizer_steps"], 5);
    EXPECT_EQ(m.meta.training["schedule_samples"], 5 * 16);
    EXPECT_EQ(m.meta.consumed_samples, 6 * 16);
  }
}

TEST(NonFinite, TooManyInARowStopWithTheirOwnStatusAndKeepTheLastCheckpoint) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.save = dir / "run";
  o.save_interval = 1;
  o.non_finite_limit = 3;
  const Curve c = test::run_tiny(o, 2, poison(5, 100, NAN));
  EXPECT_EQ(c.status, static_cast<int>(Code::non_finite_limit));
  EXPECT_EQ(c.loss.size(), 7u);
  EXPECT_EQ(read_tracker(dir / "run"), 4);
  EXPECT_EQ(resolve(dir / "run").iteration, 4);
}

// ---- data ----------------------------------------------------------------------------------------------------

TEST(Samples, AStepReadsTheSameSamplesAtEveryDataParallelSize) {
  const auto make = [](std::int64_t k, data::TrainingSample& out) {
    data::make_sample(std::vector<std::int32_t>(5, static_cast<std::int32_t>(k)), 5, {}, {}, out);
  };
  const BatchSource source(make, {4, 2, 16});
  const auto ids_of = [&](int dp) {
    std::vector<std::int32_t> ids;
    for (int r = 0; r < dp; ++r)
      for (const auto& b : source.step(48, dp, r)) ids.insert(ids.end(), b.ids.begin(), b.ids.end());
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  const auto one = ids_of(1);
  ASSERT_EQ(one.size(), 64u);
  EXPECT_EQ(one.front(), 48);
  EXPECT_EQ(one.back(), 63);
  for (int dp : {2, 4, 8}) EXPECT_EQ(ids_of(dp), one);
}

TEST(Samples, PaddingIsMaskedByPlaceAndTheEndTokenKeepsItsLoss) {
  // 5 END 6 padded to six tokens where the pad id is the end id.
  const std::int32_t end = 9;
  const auto make = [&](std::int64_t, data::TrainingSample& out) {
    data::make_sample(std::vector<std::int32_t>{5, end, 6, end, end, end, end}, 3, {}, {}, out);
  };
  const BatchSource source(make, {6, 1, 1});
  for (std::int64_t consumed : {0, 99}) {
    const HostBatch b = source.step(consumed, 1, 0)[0];
    EXPECT_EQ(b.mask, (std::vector<float>{1, 1, 0, 0, 0, 0}));
  }
}

// ---- stops and refusals --------------------------------------------------------------------------------------

TEST(Retention, ASaveOffTheGridGoesWhenTheNextIsThere) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.save = dir / "run";
  o.save_interval = 2;
  o.save_retain_interval = 6;
  o.train_iters = 11;
  test::run_tiny(o, 2);
  std::vector<std::int64_t> left;
  for (const auto& i : list_iterations(o.save)) left.push_back(i.iteration);
  EXPECT_EQ(left, (std::vector<std::int64_t>{6, 11}));
  EXPECT_EQ(read_tracker(o.save), 11);

  o.save_retain_interval = 5;
  try {
    complete_options(o, 2);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(std::string(e.what()).find("save-retain-interval 5 is not a multiple of save-interval 2"), std::string::npos)
        << e.what();
  }
}

TEST(Signals, TermOnOneRankSavesOnAllAtTheSameStep) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.save = dir / "run";
  TrainerHooks hooks;
  std::atomic<bool> sent{false};
  hooks.on_phase = [&](const char* phase, std::int64_t i) {
    if (i == 3 && std::string(phase) == "forward-backward" && !sent.exchange(true)) ::raise(SIGTERM);
  };
  const Curve c = test::run_tiny(o, 2, hooks);
  EXPECT_EQ(c.status, static_cast<int>(Code::signal_saved));
  EXPECT_EQ(c.loss.size(), 3u);
  EXPECT_EQ(resolve(dir / "run").iteration, 3);
}

// The evaluation is left off on all ranks together, and the resumed run's later ones are those of a run without a stop.
TEST(Signals, TermDuringALongValidationIsHeardAndTheRunResumesAsIfItWereNot) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 4;
  o.eval_interval = 2;
  o.eval_iters = 9;
  o.metrics_file = dir / "whole.jsonl";
  const Curve whole = test::run_tiny(o, 2);
  o.save = dir / "run";
  o.metrics_file = dir / "stopped.jsonl";
  TrainerHooks hooks;
  std::atomic<bool> sent{false};
  hooks.on_phase = [&](const char* phase, std::int64_t i) {
    if (i == 2 && std::string(phase) == "evaluate" && !sent.exchange(true)) ::raise(SIGTERM);
  };
  const Curve stopped = test::run_tiny(o, 2, hooks);
  EXPECT_EQ(stopped.status, static_cast<int>(Code::signal_saved));
  EXPECT_EQ(stopped.loss.size(), 2u);
  EXPECT_EQ(resolve(dir / "run").iteration, 2);
  EXPECT_TRUE(read_event_log(o.metrics_file).evaluations.empty());
  o.load = dir / "run";
  EXPECT_EQ(test::run_tiny(o, 2).status, 0);
  const auto want = read_event_log(dir / "whole.jsonl").evaluations, got = read_event_log(o.metrics_file).evaluations;
  EXPECT_EQ(got.size(), 1u);
  EXPECT_EQ(got.at({4, "validation"})["loss"], want.at({4, "validation"})["loss"]);
}

TEST(Signals, TheTimeLimitEndsAValidationThatWouldTakeYears) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.save = dir / "run";
  o.eval_interval = 1;
  o.eval_iters = 9000000000;
  o.exit_duration_min = 1.0 / 60;
  EXPECT_EQ(test::run_tiny(o, 2).status, static_cast<int>(Code::time_limit));
  EXPECT_EQ(resolve(dir / "run").iteration, 1);
}

TEST(Load, AMissingCheckpointIsRefusedOnEveryRankUnlessItMayBeMissing) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 1;
  o.load = dir / "nothing";
  EXPECT_THROW(test::run_tiny(o, 2), Error);
  o.load_if_present = true;
  EXPECT_EQ(test::run_tiny(o, 2).loss.size(), 1u);
}

TEST(Load, ACheckpointOfAnotherModelIsRefusedBeforeMemoryIsTaken) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 0;
  o.save = dir / "run";
  test::run_tiny(o, 1);
  o.load = dir / "run";
  o.save = "";
  o.train_iters = 1;
  o.model.num_layers = 3;
  const std::size_t before = live_buffer_bytes();
  try {
    test::run_tiny(o, 1);
    FAIL() << "a layer of the checkpoint was dropped in silence";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(std::string(e.what()).find("decoder.layers.3"), std::string::npos) << e.what();
  }
  EXPECT_EQ(live_buffer_bytes(), before);
  o.model.num_layers = 4;
  o.model.ffn_hidden_size = 96;
  EXPECT_THROW(test::run_tiny(o, 1), Error);
}

TEST(Load, AModelOfEqualShapesThatComputesOtherwiseIsRefused) {
  const TempDir dir;
  auto o = test::tiny_options(dir, "gpt2");
  o.train_iters = 1;
  o.save = dir / "run";
  test::run_tiny(o, 1);
  o.load = dir / "run";
  o.save = "";
  o.train_iters = 2;
  o.lr.override_scheduler = true;
  o.model.norm_epsilon = 1e-6;
  try {
    test::run_tiny(o, 1);
    FAIL() << "another epsilon was taken in silence";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(std::string(e.what()).find("eps"), std::string::npos) << e.what();
  }
  o.finetune = true;
  EXPECT_EQ(test::run_tiny(o, 1).status, 0);
  o.finetune = false;
  o.model.norm_epsilon = 1e-5;
  o.model.hidden_dropout = 0;  // regularisation may change
  EXPECT_EQ(test::run_tiny(o, 1).loss.size(), 1u);
}

TEST(Options, EveryProblemIsListedAtOnceWithANeighbour) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.model.num_attention_heads = 12;
  o.model.hidden_size = 96;
  o.model.num_query_groups = 12;
  o.parallel.tp = 8;
  o.parallel.sequence_parallel = true;
  o.parallel.ep = 4;
  o.parallel.vpp = 2;
  o.batch.seq_length = 1001;
  o.bf16 = o.fp16 = true;
  try {
    complete_options(o, 12);
    FAIL() << "accepted";
  } catch (const Error& e) {
    const std::string text = e.what();
    for (const char* want : {"world size 12", "num-attention-heads 12", "seq-length 1001", "2 half precisions",
                             "num-virtual-stages-per-pipeline-rank 2", "8"})
      EXPECT_NE(text.find(want), std::string::npos) << want << " in:\n" << text;
    EXPECT_EQ(e.code(), Code::config);
  }
}

}  // namespace
}  // namespace mt
