// Whole training states through checkpoints of every layout, what cannot be loaded, and saves that fail on one rank.

#include "engine/checkpoint.h"

#include <atomic>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temporary_directory.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "engine/interrupted_world.h"
#include "engine/rank_state.h"
#include "engine/save_agreement.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::fill;
using test::kKinds;
using test::RankState;
using test::save;
using test::TemporaryDirectory;
using test::value_of;
using test::wrong_elements;

// Big enough that tables are cut among their replicas (64 KiB and more), with a vocabulary that no layout divides.
ModelSpec model_of(bool llama, int kv_heads = 2) { return test::small_model({llama, 8, kv_heads, 1031}); }

void save_all(const fs::path& root, const ModelSpec& model, int tp, int dp, DType compute, bool sp = false) {
  test::on_ranks(tp * dp, [&](Communicator& world) {
    RankState r(world, model, test::layout(tp, dp, sp), compute, tp == 2 ? Stream::Mode::deferred : Stream::Mode::immediate);
    fill(r);
    save(root, world, r, 7);
  });
}

struct Case {
  int save_tp, save_dp, load_tp, load_dp;
  bool llama;
  DType dtype;
};

class Resharding : public testing::TestWithParam<Case> {};

TEST_P(Resharding, WeightsMomentsAndMasterComeBackBitwise) {
  const Case& c = GetParam();
  const TemporaryDirectory dir;
  const ModelSpec model = model_of(c.llama);
  save_all(dir.path(), model, c.save_tp, c.save_dp, c.dtype, c.save_tp > 1);
  test::on_ranks(c.load_tp * c.load_dp, [&](Communicator& world) {
    RankState r(world, model, test::layout(c.load_tp, c.load_dp), c.dtype);
    const Reader reader(dir.path() / iteration_name(7));
    check_loadable(reader, model, r.store.specs(), LoadWhat::everything);
    load_training(reader, r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
    r.stream.synchronize();
    for (const char* kind : kKinds) EXPECT_EQ(wrong_elements(r, kind), 0) << kind << " rank " << world.rank();
    if (c.dtype != DType::bf16) return;
    std::int64_t wrong = 0;
    for (int p = 0; p < r.store.num_params(); ++p)
      for (const auto& piece : r.store.spec(p).pieces)
        test::for_each_element(r.store.weight(p), piece, [&](std::int64_t e, std::byte* at) {
          wrong += reinterpret_cast<bf16*>(at)->bits != to_bf16(value_of(piece.name, "master", e)).bits;
        });
    EXPECT_EQ(wrong, 0) << "weights are the rounded master";
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Resharding,
    testing::Values(Case{1, 1, 4, 1, true, DType::f32}, Case{4, 2, 1, 1, true, DType::bf16},
                    Case{2, 3, 8, 1, false, DType::f32}, Case{8, 1, 2, 2, false, DType::bf16},
                    Case{1, 4, 2, 1, true, DType::f32}, Case{4, 1, 4, 2, false, DType::f32}));

struct Sharding {
  int stage, dp, instances;
};

// Shards of every ZeRO stage, of one optimizer instance or several: filled from a plain checkpoint, saved, and read back whole.
TEST(Checkpoint, ShardedStatesOfEveryZeroStageComeBackBitwise) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Sharding c : {Sharding{1, 3, 1}, {2, 3, 1}, {3, 3, 1}, {1, 4, 2}, {2, 3, 3}, {3, 4, 2}}) {
      const TemporaryDirectory dir;
      const ModelSpec model = model_of(c.stage != 2);
      save_all(dir.path(), model, 1, 1, dtype);
      const int ranks = 2 * c.dp;
      ParallelSpec parallel = test::layout(2, c.dp, false, c.stage);
      parallel.optimizer_instances = c.instances;
      test::on_ranks(ranks, [&](Communicator& world) {
        RankState r(world, model, parallel, dtype);
        load_training(Reader(dir.path() / iteration_name(7)), r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
        save(dir.path(), world, r, 8);
      });
      const Manifest plain = read_manifest(dir.path() / iteration_name(7)), sharded = read_manifest(dir.path() / iteration_name(8));
      EXPECT_EQ(sharded.tensor_bytes(), plain.tensor_bytes());
      EXPECT_EQ(sharded.files.size(), static_cast<std::size_t>(ranks));
      for (const auto& f : sharded.files)
        EXPECT_LT(f.bytes, plain.tensor_bytes() / sharded.files.size() * 2) << "instances share the work too: " << f.name;
      test::on_ranks(1, [&](Communicator& world) {
        RankState r(world, model, {}, dtype);
        load_training(Reader(dir.path() / iteration_name(8)), r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
        for (const char* kind : kKinds) EXPECT_EQ(wrong_elements(r, kind), 0) << kind << " stage " << c.stage;
      });
    }
}

// From layout to layout, each with another cut on every axis: at the end every byte is what it was.
TEST(Checkpoint, AChainThroughLayoutsOfEveryAxisChangesNoBit) {
  struct Layout {
    int tp, pp, vpp, dp, stage, instances;
    bool v_shape;
  };
  constexpr Layout chain[] = {{1, 2, 1, 1, 0, 1, false}, {2, 1, 1, 2, 1, 1, false}, {1, 2, 1, 2, 2, 1, false},
                              {4, 1, 1, 2, 3, 2, false}, {2, 2, 2, 1, 0, 1, true},  {1, 4, 1, 2, 3, 1, false},
                              {1, 1, 1, 4, 2, 2, false}, {2, 2, 2, 2, 1, 2, false}, {1, 2, 2, 3, 3, 3, true}};
  for (const bool llama : {false, true}) {
    const TemporaryDirectory dir;
    ModelOptions options = test::small_options({llama, 8, 2, 1031});
    options.num_layers = 4;
    const ModelSpec model = build_model(options, 1031);
    save_all(dir.path(), model, 1, 1, DType::bf16);
    std::int64_t iteration = 7;
    for (const Layout& l : chain) {
      SCOPED_TRACE(fmt::format("tp {} pp {} vpp {} dp {} ZeRO {}", l.tp, l.pp, l.vpp, l.dp, l.stage));
      ParallelSpec parallel = test::layout(l.tp, l.dp, false, l.stage);
      parallel.pp = l.pp, parallel.vpp = l.vpp, parallel.optimizer_instances = l.instances, parallel.v_shape = l.v_shape;
      test::on_ranks(parallel.world(), [&](Communicator& world) {
        RankState r(world, model, parallel, DType::bf16);
        const Reader reader(dir.path() / iteration_name(iteration));
        load_training(reader, r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
        save(dir.path(), world, r, iteration + 1);
      });
      ++iteration;
    }
    test::on_ranks(1, [&](Communicator& world) {
      RankState r(world, model, {}, DType::bf16);
      load_training(Reader(dir.path() / iteration_name(iteration)), r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
      for (const char* kind : kKinds) EXPECT_EQ(wrong_elements(r, kind), 0) << kind;
    });
  }
}

TEST(Checkpoint, EveryByteIsWrittenOnceAndTheWorkIsShared) {
  const TemporaryDirectory dir;
  const ModelSpec model = model_of(true);
  save_all(dir.path(), model, 2, 2, DType::bf16);
  const Manifest m = read_manifest(dir.path() / iteration_name(7));  // refuses gaps and overlaps
  const auto n = static_cast<std::uint64_t>(num_parameters(model));
  EXPECT_EQ(m.tensor_bytes(), n * (2 + 3 * 4));
  ASSERT_EQ(m.files.size(), 4u);
  for (const auto& f : m.files) {
    EXPECT_GT(f.bytes, n * 14 / 4 / 2) << f.name << " has less than half its share";
    EXPECT_LT(f.bytes, n * 14 / 4 * 3 / 2) << f.name << " has more than half beyond its share";
  }
  std::uint64_t planned = 0;
  for (const auto& c : place(test::layout(2, 2)).coordinates)
    for (const auto& b : boxes_to_write(model, test::layout(2, 2), c, DType::bf16)) planned += b.bytes();
  EXPECT_EQ(planned, m.tensor_bytes());
}

TEST(Checkpoint, WeightsAloneLeaveMomentsAsTheyWere) {
  const TemporaryDirectory dir;
  const ModelSpec model = model_of(false);
  save_all(dir.path(), model, 1, 1, DType::f32);
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, model, test::layout(2, 1), DType::bf16);  // f32 checkpoint, bf16 model: converted
    const Reader reader(dir.path() / iteration_name(7));
    load_training(reader, r.stream, r.groups, r.store, r.optimizer, LoadWhat::weights);
    r.stream.synchronize();
    EXPECT_EQ(wrong_elements(r, "master"), 0) << "the master is the f32 weight, not its rounding";
    for (int p = 0; p < r.store.num_params(); ++p)
      for (std::int64_t i = 0; i < r.optimizer.exp_avg(p).size(); ++i)
        ASSERT_EQ(r.optimizer.exp_avg(p).as<float>()[i], 0.0f);
  });
}

TEST(Checkpoint, ABf16CheckpointFillsAnF32ModelFromItsMaster) {
  const TemporaryDirectory dir;
  const ModelSpec model = model_of(true);
  save_all(dir.path(), model, 2, 1, DType::bf16);
  test::on_ranks(1, [&](Communicator& world) {
    RankState r(world, model, {});
    const Reader reader(dir.path() / iteration_name(7));
    load_training(reader, r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
    for (const char* kind : kKinds) EXPECT_EQ(wrong_elements(r, kind), 0) << kind;
    ParameterStore scoring(r.store.specs(), DType::f32, {}, ParameterStore::Gradients::absent);
    load_weights(reader, r.stream, scoring);
    const float first = scoring.weight(0).as<float>()[0];
    EXPECT_EQ(first, to_f32(to_bf16(value_of("embedding.word_embeddings.weight", "master", 0)))) << "scoring reads weights";
  });
}

void expect_refused(const fs::path& dir, const ModelSpec& model, LoadWhat what, const std::string& says) {
  const Reader reader(dir);
  try {
    check_loadable(reader, model, param_specs(model, {}, {}), what);
    ADD_FAILURE() << "accepted, though " << says;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config) << e.what();
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what() << " does not say " << says;
  }
}

TEST(Checkpoint, WhatDoesNotFitIsRefusedByName) {
  const TemporaryDirectory dir;
  const test::Sizes sizes{true, 8, 2, 61};
  save_all(dir.path(), test::small_model(sizes), 1, 1, DType::f32);
  const fs::path at = dir.path() / iteration_name(7);
  const auto changed = [&](auto change) {
    ModelOptions o = test::small_options(sizes);
    change(o);
    return build_model(o, 61);
  };
  const auto all = LoadWhat::everything;
  expect_refused(at, test::small_model({true, 8, 2, 62}), all, "embedding.word_embeddings.weight");
  expect_refused(at, test::small_model({true, 8, 2, 62}), all, "[62, 32]");
  expect_refused(at, changed([](auto& o) { o.num_layers = 3; }), all, "decoder.layers.2.");
  expect_refused(at, changed([](auto& o) { o.num_layers = 1; }), all, "decoder.layers.1.");
  expect_refused(at, changed([](auto& o) { o.add_bias_linear = true; }), all, "bias");
  expect_refused(at, changed([](auto& o) { o.untie_embeddings_and_output_weights = false; }), all, "output_layer.weight");
  expect_refused(at, changed([](auto& o) { o.swiglu = false; }), all, "linear_fc1");
  expect_refused(at, changed([](auto& o) { o.num_query_groups = 4; }), all, "linear_k.weight");
}

TEST(Checkpoint, ACheckpointWithoutMomentsServesWeightsAlone) {
  const TemporaryDirectory dir;
  const ModelSpec model = test::small_model();
  test::on_ranks(1, [&](Communicator& world) {
    RankState r(world, model, {});
    fill(r);
    std::vector<TensorShard> shards;
    for (int p = 0; p < r.store.num_params(); ++p)
      for (const auto& piece : r.store.spec(p).pieces)
        shards.push_back({{piece.name, "weight", DType::f32, piece.shape, piece.box},
                          static_cast<std::byte*>(piece_view(r.store.weight(p), piece).data)});
    write_rank(begin_save(dir.path(), 7), 0, shards);
    CheckpointMeta meta;
    meta.iteration = 7;
    commit(dir.path(), meta);
    const fs::path at = dir.path() / iteration_name(7);
    expect_refused(at, model, LoadWhat::everything, "weights alone");
    RankState fresh(world, model, {});
    load_training(Reader(at), fresh.stream, fresh.groups, fresh.store, fresh.optimizer, LoadWhat::weights);
    EXPECT_EQ(wrong_elements(fresh, "master"), 0);
  });
}

// A save of iteration 8 over 4 ranks in which `strike` happens on the failing rank after the n-th agreement must fail on all ranks
// and leave iteration 7 as it was.
void expect_save_fails_everywhere(const fs::path& root, int after, const std::function<void(const fs::path&)>& strike,
                                  Code on_the_rank_that_fails, int failing_rank) {
  const ModelSpec model = test::small_model();
  save_all(root, model, 2, 2, DType::f32);
  std::atomic<int> failed{0};
  test::on_ranks(4, [&](Communicator& inner) {
    test::Interrupted world(inner, inner.rank() == failing_rank ? after : 0, [&] { strike(root / temporary_name(8)); });
    RankState r(world, model, test::layout(2, 2));
    fill(r);
    try {
      save(root, world, r, 8);
    } catch (const Error& e) {
      ++failed;
      EXPECT_EQ(e.code(), on_the_rank_that_fails) << e.what();
      EXPECT_EQ(std::string(e.what()).find(fmt::format("rank {} failed to save", failing_rank)) == std::string::npos,
                world.rank() == failing_rank)
          << e.what();
    }
  });
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(read_tracker(root), 7);
  EXPECT_FALSE(fs::exists(root / iteration_name(8)));
  EXPECT_FALSE(fs::exists(root / temporary_name(8))) << "nothing is left over";
  EXPECT_EQ(resolve(root).iteration, 7);
  test::on_ranks(1, [&](Communicator& world) {
    RankState r(world, model, {});
    load_training(Reader(resolve(root).dir), r.stream, r.groups, r.store, r.optimizer, LoadWhat::everything);
    EXPECT_EQ(wrong_elements(r, "exp_avg_sq"), 0);
  });
}

TEST(Checkpoint, AWriteThatFailsOnOneRankFailsTheSaveOnAllAndKeepsTheLastOne) {
  const TemporaryDirectory dir;
  expect_save_fails_everywhere(
      dir.path(), 1, [](const fs::path& tmp) { fs::create_directory(tmp / data_file_name(1)); }, Code::io, 1);
}

TEST(Checkpoint, ACommitThatFailsOnTheFirstRankFailsTheSaveOnAllAndKeepsTheLastOne) {
  const TemporaryDirectory dir;
  expect_save_fails_everywhere(
      dir.path(), 2, [](const fs::path& tmp) { fs::remove(tmp / rank_file_name(1)); }, Code::corrupt, 0);
}

TEST(Checkpoint, ADirectoryThatCannotBeMadeFailsTheSaveOnAll) {
  const TemporaryDirectory dir;
  std::ofstream(dir.path() / "file") << "not a directory";
  std::atomic<int> failed{0};
  test::on_ranks(2, [&](Communicator& world) {
    RankState r(world, test::small_model(), test::layout(2, 1));
    try {
      save(dir.path() / "file", world, r, 1);
    } catch (const Error& e) {
      ++failed;
      EXPECT_EQ(e.code(), Code::io) << e.what();
    }
  });
  EXPECT_EQ(failed, 2);
}

TEST(Checkpoint, AnyRankIsTrueEverywhereWhenOneSaysSo) {
  for (const auto mode : {Stream::Mode::immediate, Stream::Mode::deferred})
    test::on_ranks(3, [&](Communicator& world) {
      Stream stream({}, 1, mode);
      EXPECT_FALSE(any_rank(stream, world, false));
      for (int who = 0; who < 3; ++who) EXPECT_TRUE(any_rank(stream, world, who == world.rank()));
      EXPECT_TRUE(any_rank(stream, world, true));
      EXPECT_FALSE(any_rank(stream, world, false));
    });
}

}  // namespace
}  // namespace mt
