// Tensor-parallel messages beside products: within the bounds of layouts of a run without, and its bits on the emulated device;
// the same bytes; and what the switches ask for.

#include <mutex>

#include "base/error.h"
#include "comm/volume.h"
#include "device/backend.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

TrainingOptions overlap_options(const TempDir& dir, const std::string& family, int tp) {
  auto o = test::tiny_options(dir, family);
  o.train_iters = 2;
  o.model.num_layers = 2;
  o.batch = {16, 2, 4};
  o.parallel.tp = tp;
  o.parallel.sequence_parallel = tp > 1;
  return o;
}

// With and without the switch, with sums of input gradients whole and in pieces.
void expect_close_run(const TrainingOptions& without, int ranks) {
  auto with = without;
  with.tp_comm_overlap = true;
  const Curve want = test::run_tiny(without, ranks);
  for (const bool sum_dgrad : {false, true}) {
    with.tp_overlap.sum_dgrad = sum_dgrad;
    const auto d = test::distance(want, test::run_tiny(with, ranks));
    EXPECT_LE(d.loss, without.bf16 ? 2e-3 : test::kLossBound);
    EXPECT_LE(d.grad_norm, without.bf16 ? 2e-2 : test::kNormBound);
  }
}

TEST(TpOverlap, StaysWithinTheBoundsInAnyShapeOfAttentionPrecisionAndDegree) {
  struct Case {
    const char* family;
    int tp;
    bool bf16;
    int seq_length, micro_batch;
  };
  // 18 tokens of one sample are shards of 9; four ranks of two key/value heads share them.
  for (const Case& c : {Case{"gpt2", 2, false, 18, 1}, {"llama", 2, true, 16, 2}, {"llama", 4, false, 20, 1}, {"qwen3", 4, true, 16, 1}}) {
    SCOPED_TRACE(fmt::format("{} tp {}", c.family, c.tp));
    const TempDir dir;
    auto o = overlap_options(dir, c.family, c.tp);
    o.bf16 = c.bf16;
    o.batch = {c.seq_length, c.micro_batch, 2 * c.micro_batch};
    o.model.max_position_embeddings = c.seq_length;
    o.eval_interval = 1;
    o.eval_iters = 1;
    expect_close_run(o, c.tp);
  }
}

TEST(TpOverlap, StaysWithinTheBoundsUnderSchedulesShardsRecomputeAndFp8) {
  const TempDir dir;
  auto o = overlap_options(dir, "llama", 2);
  o.parallel.pp = 2;
  o.schedule = "zb-h1";  // weight gradients come later
  o.deferred_stream = true;
  expect_close_run(o, 4);
  o = overlap_options(dir, "gpt2", 2);
  o.bf16 = true;
  o.sharding_strategy = "optim_grads_params";
  o.use_megatron_fsdp = true;
  o.recompute = {"full", "uniform", 1, {}, false, false};
  o.batch.global_batch = 8;
  expect_close_run(o, 4);
  o = overlap_options(dir, "llama", 2);
  o.recompute = {"selective", "", {}, {"core_attn", "mlp"}, false, false};
  expect_close_run(o, 2);
  o = overlap_options(dir, "llama", 2);
  o.bf16 = true;
  o.fp8.format = "hybrid";
  o.fp8.recipe = "tensorwise";  // one scale for all rows
  expect_close_run(o, 2);
}

TEST(TpOverlap, StaysWithinTheBoundsOfOneRank) {
  for (const char* family : {"gpt2", "llama"}) {
    const TempDir dir;
    auto o = overlap_options(dir, family, 1);
    o.train_iters = 10;
    const Curve one = test::run_tiny(o, 1);
    o.parallel.tp = 4;
    o.parallel.sequence_parallel = o.tp_comm_overlap = o.tp_overlap.sum_dgrad = true;
    const auto d = test::distance(one, test::run_tiny(o, 4));
    EXPECT_LE(d.loss, test::kLossBound) << family;
    EXPECT_LE(d.grad_norm, test::kNormBound) << family;
  }
}

TEST(TpOverlap, ResumesToTheBitAndMayGoBetweenTwoStartsOfARun) {
  const TempDir dir;
  auto o = overlap_options(dir, "llama", 2);
  o.train_iters = 4;
  o.tp_comm_overlap = true;
  o.save = dir / "whole";
  const Curve whole = test::run_tiny(o, 2);
  o.save = dir / "halves";
  o.exit_interval = 2;
  test::run_tiny(o, 2);
  o.load = o.save;
  o.save = dir / "rest";
  EXPECT_EQ(test::run_tiny(o, 2).loss.back(), whole.loss.back());
  test::expect_same(dir / "whole/iter_0000004", dir / "rest/iter_0000004");
  o.save.clear();
  o.tp_comm_overlap = false;
  EXPECT_NEAR(test::run_tiny(o, 2).loss.back(), whole.loss.back(), 1e-5 * whole.loss.back());
}

// Calls and bytes of rank 0 over tp in a run.
struct Traffic {
  std::map<std::string, comm::TrafficRow> rows;
  std::int64_t bytes = 0;
};

Traffic count(const TrainingOptions& o, int ranks) {
  std::vector<comm::TrafficLog> logs(static_cast<std::size_t>(ranks));
  test::run_tiny(o, ranks, {}, [&](std::unique_ptr<Communicator> world) {
    auto& log = logs[static_cast<std::size_t>(world->rank())];
    return comm::recording(std::move(world), log);
  });
  Traffic t;
  for (const auto& row : logs[0].rows())
    if (row.group == "tp") t.rows[row.operation] = row, t.bytes += row.bytes_sent;
  return t;
}

// Gathers and sums of a step as layout and model have them: an embedding, two layers of two sub-layers, a head.
TEST(TpOverlap, SendsTheSameBytesInAsManyPiecesAsSaid) {
  constexpr int kTp = 4, kSubLayers = 4, kPieces = 4;
  const TempDir dir;
  auto o = overlap_options(dir, "gpt2", kTp);
  o.train_iters = 1;
  const std::int64_t micro_batches = o.batch.global_batch / o.batch.micro_batch;
  const std::int64_t whole = comm::parts_bytes_sent(16 * 2 * 32 * 4, kTp);  // of [T, C] in f32
  const Traffic without = count(o, kTp);
  o.tp_comm_overlap = true;
  o.tp_overlap.sum_dgrad = true;
  const Traffic with = count(o, kTp);
  EXPECT_EQ(with.bytes, without.bytes);
  // Forward and, but for the head, backward gathers go in pieces; those for weight gradients and the embedding's as a whole.
  const std::int64_t in_pieces = micro_batches * (2 * kSubLayers + 1), gathers = in_pieces + micro_batches * (kSubLayers + 2);
  EXPECT_EQ(without.rows.at("all_gather").calls - with.rows.at("all_gather").calls, in_pieces);
  EXPECT_GE(without.rows.at("all_gather").calls, gathers);
  EXPECT_EQ(without.rows.count("all_to_all_v"), 0u);
  EXPECT_EQ(with.rows.at("all_to_all_v").calls, in_pieces * (kTp - 1));
  EXPECT_EQ(with.rows.at("all_to_all_v").bytes_sent, in_pieces * whole);
  // A sum of each sub-layer forward and backward and of the head backward, in pieces; the embedding's as a whole.
  const std::int64_t sums = micro_batches * (2 * kSubLayers + 1);
  EXPECT_EQ(with.rows.at("reduce_scatter").calls - without.rows.at("reduce_scatter").calls, sums * (kPieces - 1));
  EXPECT_EQ(with.rows.at("reduce_scatter").bytes_sent, without.rows.at("reduce_scatter").bytes_sent);
  EXPECT_EQ(without.rows.at("reduce_scatter").bytes_sent, (sums + micro_batches) * whole);
}

TEST(TpOverlap, SwitchesTakePartsOfItAway) {
  constexpr int kTp = 2;
  const TempDir dir;
  auto o = overlap_options(dir, "llama", kTp);
  o.train_iters = 1;
  o.tp_comm_overlap = true;
  const auto calls = [&](const char* operation) {
    const Traffic t = count(o, kTp);
    const auto it = t.rows.find(operation);
    return it == t.rows.end() ? 0 : it->second.calls;
  };
  const auto all = calls("reduce_scatter");
  o.tp_overlap.sum_dgrad = true;
  EXPECT_GT(calls("reduce_scatter"), all);
  o.tp_overlap.sum_dgrad = o.tp_overlap.sum = false;
  EXPECT_LT(calls("reduce_scatter"), all);
  EXPECT_GT(calls("all_to_all_v"), 0);
  o.tp_overlap.gather = false;
  EXPECT_EQ(calls("all_to_all_v"), 0);
}

TEST(OnTheDeviceTpOverlap, KeepsTheBitsOfTheEmulatedDeviceOverNcclAndThroughTheHost) {
  for (const int tp : {2, 4}) {
    if (!test::on_cpu() && cuda_backend().count() < tp) GTEST_SKIP() << "NCCL wants " << tp << " devices";
    for (const char* backend : {"mpi", "nccl"}) {
      SCOPED_TRACE(fmt::format("tp {} {}", tp, backend));
      const TempDir dir;
      auto o = overlap_options(dir, tp == 2 ? "llama" : "gpt2", tp);
      o.bf16 = tp == 2;
      o.batch = {12, 1, 2};
      o.distributed_backend = backend;
      o.deterministic = true;
      if (!test::on_cpu() && cuda_backend().emulated) {
        auto with = o;
        with.tp_comm_overlap = with.tp_overlap.sum_dgrad = true;
        test::expect_same_run(o, with, tp, dir);
      } else {
        expect_close_run(o, tp);
      }
    }
  }
}

// NCCL's own sums may round otherwise in pieces.
TEST(OnTheDeviceTpOverlap, StaysWithinTheBoundsWithTheSumsOfNccl) {
  if (!test::on_cpu() && cuda_backend().count() < 4) GTEST_SKIP() << "NCCL wants 4 devices";
  const TempDir dir;
  auto o = overlap_options(dir, "llama", 4);
  const Curve without = test::run_tiny(o, 4);
  o.tp_comm_overlap = true;
  const auto d = test::distance(without, test::run_tiny(o, 4));
  EXPECT_LE(d.loss, 1e-5);
  EXPECT_LE(d.grad_norm, 1e-4);
}

TEST(TpOverlapOptions, WantSequenceParallelismAndTellWhatTheyDoNotDo) {
  const TempDir dir;
  auto o = overlap_options(dir, "llama", 2);
  EXPECT_FALSE(complete_options(o, 2).tp_overlap.gather) << "without the flag";
  o.tp_comm_overlap = true;
  const TpOverlap on = complete_options(o, 2).tp_overlap;
  EXPECT_TRUE(on.gather && on.sum && on.bulk_dgrad && on.bulk_wgrad && !on.sum_dgrad);
  o.parallel.sequence_parallel = false;
  try {
    complete_options(o, 2);
    ADD_FAILURE() << "nothing is refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(std::string(e.what()).find("tp-comm-overlap without sequence-parallel"), std::string::npos) << e.what();
  }
  const auto notices = [](const TrainingOptions& given) { return fmt::format("{}", fmt::join(complete_options(given, 2).notices, "; ")); };
  o.parallel.tp = 1;
  EXPECT_NE(notices(o).find("--tp-comm-overlap without tensor parallelism does nothing"), std::string::npos);
  EXPECT_FALSE(complete_options(o, 2).tp_overlap.bulk_wgrad);
  o.parallel.tp = 2;
  o.parallel.sequence_parallel = true;
  EXPECT_EQ(notices(o).find("tp-comm-overlap"), std::string::npos);
  o.bf16 = true;
  o.fp8.format = "e4m3";
  EXPECT_NE(notices(o).find("products in fp8 are not cut"), std::string::npos);
}

}  // namespace
}  // namespace mt
