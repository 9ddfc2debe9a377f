// Saved tensors of each kind of row against shapes written by hand.

#include "layout/saved_tensors.h"

#include <map>

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

std::map<std::string, SavedTensor> saved(const ModelSpec& model, int tp, bool sp, int unit, DType dtype = DType::bf16) {
  ParallelSpec p;
  p.tp = tp;
  p.sequence_parallel = sp;
  std::map<std::string, SavedTensor> out;
  for (auto& t : saved_tensors(model, p, {16, 2, 2}, dtype, unit)) {
    EXPECT_EQ(out.count(t.name), 0u) << t.name;
    out[t.name] = t;
  }
  return out;
}

TEST(SavedTensors, OfAttentionKeepShardsOfTheStreamAndLocalHeads) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});  // hidden 32, heads of 4, ffn 48
  for (const auto& [tp, sp] : {std::pair{1, false}, {2, false}, {2, true}, {4, true}}) {
    const auto s = saved(model, tp, sp, 1);
    const std::int64_t t = 32, ts = sp ? t / tp : t, heads = 8 / tp, kv = std::max(1, 2 / tp);
    EXPECT_EQ(s.size(), 6u);
    EXPECT_EQ(s.at("x").shape, (Dims{ts, 32}));
    EXPECT_EQ(s.at("normed").shape, (Dims{ts, 32}));
    EXPECT_EQ(s.at("rstd").shape, (Dims{ts}));
    EXPECT_EQ(s.at("qkv").shape, (Dims{t, (heads + 2 * kv) * 4}));
    EXPECT_EQ(s.at("context").shape, (Dims{t, heads * 4}));
    EXPECT_EQ(s.at("lse").shape, (Dims{t, heads}));
    EXPECT_EQ(s.at("lse").dtype, DType::f32);
    EXPECT_EQ(s.at("qkv").dtype, DType::bf16);
    EXPECT_EQ(s.at("rstd").dtype, DType::f32);
    EXPECT_EQ(s.at("x").until, Until::backward_input);
    EXPECT_EQ(s.at("normed").until, Until::backward_weight);
  }
}

TEST(SavedTensors, NormsOfHeadsKeepQueriesAndKeysAsTheyWere) {
  auto options = test::small_options({true, 8, 2, 61});
  options.qk_layernorm = true;
  const ModelSpec model = build_model(options, 61);
  for (const int tp : {1, 2, 4}) {
    const auto s = saved(model, tp, false, 1);
    const std::int64_t heads = 8 / tp, kv = std::max(1, 2 / tp);
    EXPECT_EQ(s.size(), 8u);
    EXPECT_EQ(s.at("qk").shape, (Dims{32, (heads + kv) * 4}));
    EXPECT_EQ(s.at("qk_rstd").shape, (Dims{heads + kv, 32}));
    EXPECT_EQ(s.at("qk_rstd").dtype, DType::f32);
  }
}

TEST(SavedTensors, OfFeedForwardNetworksHoldBothHalvesOfAGatedOne) {
  EXPECT_EQ(saved(test::small_model({true, 8, 2, 61}), 2, true, 2).at("fc1").shape, (Dims{32, 48}));
  const auto gpt2 = saved(test::small_model({false, 8, 2, 61}), 2, false, 2);
  EXPECT_EQ(gpt2.at("fc1").shape, (Dims{32, 24}));
  EXPECT_EQ(gpt2.at("activated").shape, (Dims{32, 24}));
  EXPECT_EQ(gpt2.at("mean").shape, (Dims{32})) << "LayerNorm has a mean, RMSNorm none";
}

TEST(SavedTensors, TheHeadKeepsItsLogitsAndTheEmbeddingNothing) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});
  EXPECT_TRUE(saved(model, 1, false, 0).empty());
  const auto head = saved(model, 4, true, 5);
  EXPECT_EQ(head.at("logits").shape, (Dims{32, 64 / 4}));
  EXPECT_EQ(head.at("x").shape, (Dims{8, 32}));
  EXPECT_EQ(head.size(), 4u);
}

TEST(SavedTensors, RowsThatComputeNothingKeepNothing) {
  ModelSpec model = test::small_model();
  model.towers[0].rows[2].kind = RowKind::none;
  EXPECT_TRUE(saved(model, 1, false, 3).empty());
  EXPECT_FALSE(saved(model, 1, false, 4).empty());
}

TEST(SavedTensors, BytesAreWholeLines) {
  EXPECT_EQ(saved_bytes({}), 0);
  EXPECT_EQ(saved_bytes({{"a", {3, 7}, DType::bf16, Until::backward_input}, {"b", {16}, DType::f32, Until::backward_input},
                         {"c", {17}, DType::f32, Until::backward_weight}}),
            64 + 64 + 128);
  EXPECT_EQ(saved_bytes({{"x", {100}, DType::f32, Until::backward_weight}, {"a", {1}, DType::f32, Until::backward_weight}}), 64)
      << "x is the unit's before it";
}

}  // namespace
}  // namespace mt
