// What rows make again, by hand: groups over stages, modules, and what that leaves in the saved tables and adds in flop.

#include "layout/recompute.h"

#include <gtest/gtest.h>

#include "layout/flops.h"
#include "layout/models.h"
#include "layout/saved_tensors.h"

namespace mt {
namespace {

ModelSpec six_layers() {
  auto o = test::small_options({});
  o.num_layers = 6;
  return build_model(o, 61);
}

ParallelSpec full(RecomputeSpec::Method method, int num_layers, int pp = 1) {
  ParallelSpec p;
  p.pp = pp;
  p.recompute.granularity = RecomputeSpec::Granularity::full;
  p.recompute.method = method;
  p.recompute.num_layers = num_layers;
  return p;
}

// A letter a row: . nothing, ( first of a group, - inside, ) last, o a group of one row.
std::string picture(const ModelSpec& model, const ParallelSpec& p) {
  std::string s;
  for (int i = 0; i < 12; ++i) {
    const auto r = row_recompute(model, p, i + 1);
    s += !r.any() ? '.' : r.input ? (r.output ? '-' : ')') : (r.output ? '(' : 'o');
  }
  return s;
}

TEST(Recompute, UniformCutsEveryStageInGroupsAndBlockTakesItsFirstLayers) {
  using M = RecomputeSpec::Method;
  const ModelSpec model = six_layers();
  EXPECT_EQ(picture(model, {}), "............");
  EXPECT_EQ(picture(model, full(M::uniform, 1)), "()()()()()()");
  EXPECT_EQ(picture(model, full(M::uniform, 4)), "(------)(--)");
  EXPECT_EQ(picture(model, full(M::uniform, 2, 2)), "(--)()(--)()") << "stages of three layers";
  EXPECT_EQ(picture(model, full(M::uniform, 9)), "(----------)");
  EXPECT_EQ(picture(model, full(M::block, 2)), "()()........");
  EXPECT_EQ(picture(model, full(M::block, 1, 3)), "()..()..()..");
  ParallelSpec chunks = full(M::block, 1, 3);
  chunks.vpp = 2;
  EXPECT_EQ(picture(model, chunks), "()()()()()()") << "chunks of one layer";
}

TEST(Recompute, GroupsSkipRowsThatComputeNothing) {
  ModelSpec model = six_layers();
  model.towers[0].rows[1].kind = RowKind::none;
  model.towers[0].rows[2].kind = RowKind::none;
  EXPECT_EQ(picture(model, full(RecomputeSpec::Method::uniform, 1)), "o..o()()()()");
  EXPECT_EQ(picture(model, full(RecomputeSpec::Method::uniform, 2)), "(..)(--)(--)");
}

TEST(Recompute, SharesAreKeptOfInputsThatTheChunkItselfMakes) {
  ParallelSpec p = full(RecomputeSpec::Method::uniform, 2, 2);
  p.tp = 2;
  p.recompute.distribute_saved = true;
  std::string shares;
  for (int i = 0; i < 12; ++i) shares += row_recompute(six_layers(), p, i + 1).shard_input ? 's' : '.';
  EXPECT_EQ(shares, "....s.....s.");
}

std::string again(const ModelSpec& model, const ParallelSpec& p, int unit) {
  std::string s;
  for (const auto& t : saved_tensors(model, p, {16, 2, 2}, DType::bf16, unit))
    if (t.again) s += (s.empty() ? "" : " ") + t.name;
  return s;
}

TEST(Recompute, ModulesNameTheTensorsTheyLose) {
  const ModelSpec model = test::small_model();
  ParallelSpec p;
  p.recompute.granularity = RecomputeSpec::Granularity::selective;
  const auto with = [&](bool RecomputeSpec::* flag) {
    ParallelSpec one = p;
    one.recompute.*flag = true;
    return again(model, one, 1) + " | " + again(model, one, 2) + " | " + again(model, one, 5);
  };
  EXPECT_EQ(with(&RecomputeSpec::core_attn), "context lse |  | ");
  EXPECT_EQ(with(&RecomputeSpec::mlp), " | fc1 activated | ");
  EXPECT_EQ(with(&RecomputeSpec::mlp_act), " | activated | ");
  EXPECT_EQ(with(&RecomputeSpec::layernorm), "normed | normed | ");
  const auto all = full(RecomputeSpec::Method::uniform, 1);
  EXPECT_EQ(again(model, all, 1), "normed rstd qkv context lse") << "the input of a group is kept";
  EXPECT_EQ(again(model, all, 2), "x normed rstd fc1 activated");
  EXPECT_EQ(again(model, all, 5), "") << "the head";
}

TEST(Recompute, FlopCountWhatIsReallyRepeated) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});  // hidden 32, heads of 4, ffn 48, gated, 2 layers
  const BatchSpec batch{16, 1, 3};
  const double t = 3 * 16, none = step_flops(model, {}, batch).causal;
  const double qkv = 2 * t * 32 * 48, proj = 2 * t * 32 * 32, core = 2 * 32 * 3 * 16 * 16, fc1 = 2 * t * 32 * 96,
               fc2 = 2 * t * 32 * 48;
  const auto more = [&](const ParallelSpec& p) {
    const StepFlops f = step_flops(model, p, batch);
    EXPECT_DOUBLE_EQ(f.causal, none);
    return f.with_recompute - none;
  };
  using M = RecomputeSpec::Method;
  EXPECT_DOUBLE_EQ(more(full(M::uniform, 1)), 2 * (qkv + core + proj + fc1)) << "the last product of a group is not";
  EXPECT_DOUBLE_EQ(more(full(M::uniform, 2)), 2 * (qkv + core + proj + fc1) + fc2);
  EXPECT_DOUBLE_EQ(more(full(M::block, 1)), qkv + core + proj + fc1);
  ParallelSpec selective;
  selective.recompute.granularity = RecomputeSpec::Granularity::selective;
  selective.recompute.core_attn = selective.recompute.layernorm = true;
  EXPECT_DOUBLE_EQ(more(selective), 2 * core);
}

}  // namespace
}  // namespace mt
