// What a config says of a model, said here by hand from the papers and modeling code; and that models no family has a key for
// are refused rather than written without it.

#include "foreign/hf_family.h"

#include <functional>
#include <map>

#include "foreign/small_models.h"
#include "layout/not_computed.h"
#include "layout/param_spec.h"
#include "layout/validate.h"

namespace mt {
namespace {

HfModel read(const std::string& name, const std::function<void(Json&)>& change = [](Json&) {}) {
  Json c = parse_json(test::small_model(name).config, name);
  change(c);
  return read_hf_config(c, "config.json");
}

std::string refusal(const std::string& name, const std::function<void(Json&)>& change) {
  try {
    read(name, change);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config) << e.what();
    return e.what();
  }
  return "accepted";
}

const Row& row_of(const HfModel& m, RowKind kind, int layer = -1) {
  for (const auto& r : m.spec.decoder().rows)
    if (r.kind == kind && (layer < 0 || r.layer == layer)) return r;
  throw std::logic_error("no such row");
}

std::string kinds(const HfModel& m) {
  std::string s;
  for (const auto& r : m.spec.decoder().rows)
    if (r.kind != RowKind::attention) s += r.kind == RowKind::moe ? 'e' : 'd';
  return s;
}

TEST(HfFamily, Qwen3NormsQueriesAndKeysByHead) {
  const auto m = read("qwen3");
  EXPECT_TRUE(row_of(m, RowKind::attention).attention.qk_norm);
  EXPECT_FALSE(row_of(m, RowKind::attention).attention.qkv_bias);
  EXPECT_EQ(row_of(read("qwen3", [](Json& c) { c.erase("head_dim"); }), RowKind::attention).attention.head_dim, 128);
  EXPECT_CONTAINS(refusal("qwen3", [](Json& c) { c["attention_bias"] = true; }), "attention_bias true is not represented");
}

TEST(HfFamily, Qwen3MoeHasExpertsWhereStepAndListSay) {
  EXPECT_EQ(kinds(read("qwen3_moe")), "dede");
  EXPECT_EQ(kinds(read("qwen3_moe", [](Json& c) { c["decoder_sparse_step"] = 1; })), "eeee");
  EXPECT_EQ(kinds(read("qwen3_moe", [](Json& c) { c["mlp_only_layers"] = {3}; })), "dedd");
  const auto m = read("qwen3_moe");
  EXPECT_EQ(row_of(m, RowKind::ffn).ffn.ffn_hidden, 40);
  EXPECT_EQ(row_of(m, RowKind::moe).ffn.ffn_hidden, 12);
  EXPECT_TRUE(row_of(m, RowKind::moe).moe.normalized);
  EXPECT_FALSE(row_of(read("qwen3_moe", [](Json& c) { c.erase("norm_topk_prob"); }), RowKind::moe).moe.normalized);
}

TEST(HfFamily, NeoxIsParallelUnlessItsConfigSaysNot) {
  EXPECT_TRUE(row_of(read("gpt_neox"), RowKind::ffn).parallel);
  EXPECT_FALSE(row_of(read("gpt_neox", [](Json& c) { c["use_parallel_residual"] = false; }), RowKind::ffn).parallel);
  EXPECT_EQ(row_of(read("gpt_neox"), RowKind::attention).attention.rotary.percent, 0.5);
  EXPECT_EQ(row_of(read("gpt_neox", [](Json& c) { c.erase("rotary_pct"); }), RowKind::attention).attention.rotary.percent, 0.25);
  EXPECT_EQ(row_of(read("gpt_neox"), RowKind::ffn).ffn.activation, Activation::gelu_erf);
  EXPECT_CONTAINS(refusal("gpt_neox", [](Json& c) { c["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}}; }), "rope_scaling");
}

TEST(HfFamily, FalconsOfBothGenerations) {
  const auto one = read("falcon-one-key"), groups = read("falcon-groups"), turn = read("falcon-in-turn");
  EXPECT_EQ(row_of(one, RowKind::attention).attention.kv_heads, 1);
  EXPECT_EQ(row_of(groups, RowKind::attention).attention.kv_heads, 2);
  EXPECT_EQ(row_of(turn, RowKind::attention).attention.kv_heads, 4);
  EXPECT_TRUE(row_of(one, RowKind::ffn).parallel && row_of(groups, RowKind::ffn).parallel);
  EXPECT_FALSE(row_of(turn, RowKind::ffn).parallel);
  EXPECT_EQ(row_of(one, RowKind::ffn).norm.kind, NormKind::none) << "reads what the norm of attention gave";
  EXPECT_EQ(row_of(groups, RowKind::ffn).norm.kind, NormKind::layer_norm);
  EXPECT_EQ(row_of(read("falcon-one-norm"), RowKind::ffn).norm.kind, NormKind::none);
  EXPECT_DOUBLE_EQ(row_of(turn, RowKind::attention).attention.alibi, 0.5) << "slopes by 1/√4";
  EXPECT_CONTAINS(refusal("falcon-groups", [](Json& c) { c["parallel_attn"] = false; }), "is no model");
}

TEST(HfFamily, DeepseekHasLatentAttentionAndRoutersOfItsGeneration) {
  const auto v2 = read("deepseek_v2"), v3 = read("deepseek_v3");
  EXPECT_EQ(kinds(v2), "deee");
  EXPECT_EQ(kinds(v3), "ddde");
  const auto& latent = row_of(v3, RowKind::attention).attention.latent;
  EXPECT_EQ(latent.q_rank, 12);
  EXPECT_EQ(row_of(v2, RowKind::attention).attention.latent.q_rank, 0);
  EXPECT_EQ(row_of(v3, RowKind::attention).attention.head_dim, 10);
  const auto &router2 = row_of(v2, RowKind::moe).moe, &router3 = row_of(v3, RowKind::moe).moe;
  EXPECT_TRUE(router3.sigmoid && router3.expert_bias && router3.normalized);
  EXPECT_FALSE(router2.sigmoid || router2.expert_bias || router2.normalized);
  EXPECT_EQ(router3.groups, 2);
  EXPECT_EQ(router2.groups, 0) << "greedy looks at no groups";
  EXPECT_EQ(router2.shared_hidden, 16);
  ASSERT_EQ(v2.notices.size(), 1u);
  EXPECT_CONTAINS(v2.notices[0], "rope_scaling of type yarn passes through");
  EXPECT_CONTAINS(refusal("deepseek_v3", [](Json& c) { c["scoring_func"] = "softmax"; }), "scoring_func");
}

TEST(HfFamily, T5HasTwoTowersWithoutScaleAndATiedHeadWithOne) {
  const auto m = read("t5"), tied = read("t5-tied");
  ASSERT_EQ(m.spec.towers.size(), 2u);
  EXPECT_EQ(m.spec.towers[0].num_layers(), 4);
  EXPECT_EQ(m.spec.towers[1].num_layers(), 2);
  EXPECT_EQ(tied.spec.towers[1].num_layers(), 4) << "as many as the encoder's";
  EXPECT_EQ(m.spec.towers[1].rows.size(), 6u) << "three sub-layers each";
  EXPECT_EQ(row_of(m, RowKind::attention).attention.scale, 1);
  EXPECT_EQ(m.spec.output_scale, 1);
  EXPECT_EQ(tied.spec.output_scale, 0.25) << "1/√16";
  EXPECT_EQ(row_of(tied, RowKind::ffn).ffn.activation, Activation::relu);
  EXPECT_FALSE(m.spec.towers[0].rows[0].attention.causal);
  EXPECT_TRUE(m.spec.towers[1].rows[0].attention.causal);
}

TEST(HfFamily, BertNormsBehindResidualsAndHasHeadsOfItsClass) {
  const auto m = read("bert");
  EXPECT_EQ(m.spec.decoder().name, "encoder");
  EXPECT_TRUE(m.spec.masked_head && !m.spec.pooler);
  EXPECT_EQ(m.spec.final_norm.kind, NormKind::none);
  for (const auto& r : m.spec.decoder().rows) EXPECT_TRUE(r.post_norm);
  EXPECT_TRUE(read("bert", [](Json& c) { c.erase("architectures"); }).spec.pooler);
  EXPECT_CONTAINS(refusal("bert", [](Json& c) { c["architectures"] = {"BertForQuestionAnswering"}; }), "BertForQuestionAnswering");
  EXPECT_CONTAINS(refusal("bert", [](Json& c) { c["position_embedding_type"] = "relative_key"; }), "relative_key");
}

TEST(HfFamily, AFamilyWithoutAKeyForWhatTheModelHasIsRefused) {
  const auto lost = [](const char* family, const char* model) -> std::string {
    try {
      hf_config_of(hf_family(family, ""), read(model).spec, DType::f32, Json::object());
    } catch (const Error& e) {
      return e.what();
    }
    return "written";
  };
  EXPECT_CONTAINS(lost("llama", "qwen3"), "none of llama: ");
  EXPECT_CONTAINS(lost("llama", "qwen3"), "qk_norm");
  EXPECT_CONTAINS(lost("qwen3", "llama"), "qk_norm");
  EXPECT_CONTAINS(lost("mixtral", "qwen3_moe"), "none of mixtral");
  EXPECT_CONTAINS(lost("gpt_neox", "gpt2"), "rotary");
  EXPECT_CONTAINS(lost("bloom", "falcon-in-turn"), "alibi");
  EXPECT_CONTAINS(lost("deepseek_v2", "deepseek_v3"), "other scores");
  EXPECT_CONTAINS(lost("t5", "bert"), "two towers");
  EXPECT_CONTAINS(lost("bert", "gpt2"), "none of bert");
}

TEST(HfFamily, EverySmallModelIsFoundByItsShapeAlone) {
  for (const auto& m : test::small_models()) {
    const auto spec = read(m.name).spec;
    const auto& found = hf_family_of(spec);
    // With no rows of keys that differ the first of the table is as good: a Mistral is a LLaMA.
    const std::map<std::string, std::string> same = {{"mistral", "llama"}};
    const auto other = same.find(test::family_of(m));
    EXPECT_EQ(found.model_type, other == same.end() ? test::family_of(m) : other->second) << m.name;
  }
}

// What runs cut and what the pieces of all ranks are together is the model, of every family, at every layout it has.
TEST(HfFamily, EveryFamilyIsCutIntoPiecesThatAreTheModel) {
  for (const auto& m : test::small_models()) {
    const ModelSpec model = read(m.name).spec;
    int layouts = 0;
    for (const int tp : {1, 2, 4})
      for (const int pp : {1, 2, 3, 4})
        for (const int ep : {1, 2, 4}) {
          ParallelSpec p;
          p.tp = tp, p.pp = pp, p.ep = ep, p.dp = ep;
          p.sequence_parallel = tp > 1;
          Limits limits;
          limits.any_model = true;
          limits.max_pp = limits.max_ep = limits.max_etp = 4, limits.max_experts = 8;
          if (!validate(model, p, {tp, 1, p.dp}, limits, 0).empty()) continue;
          ++layouts;
          SCOPED_TRACE(std::string(m.name) + " " + parallel_text(p));
          std::map<std::string, std::vector<int>> held;
          for (const auto& t : logical_tensors(model)) held[t.name].resize(static_cast<std::size_t>(num_elements(t.shape)));
          for (const auto& c : place(p).coordinates)
            for (const auto& spec : param_specs(model, p, c))
              for (const auto& piece : spec.pieces) {
                const Box part = written_part(piece, replica_of(spec, piece, p, c), DType::f32);
                if (part.empty() || spec.tie_copy) continue;
                ASSERT_EQ(held.count(piece.name), 1u) << piece.name;
                for_each_run(whole(piece.shape), part, [&](std::int64_t at, std::int64_t, std::int64_t n) {
                  for (std::int64_t i = 0; i < n; ++i) ++held[piece.name][static_cast<std::size_t>(at + i)];
                });
              }
          for (const auto& [name, times] : held) EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << name;
        }
    EXPECT_GE(layouts, 4) << m.name;
  }
}

TEST(HfFamily, WhatNoRunComputesIsNamed) {
  EXPECT_EQ(not_computed(read("llama").spec), "");
  EXPECT_EQ(not_computed(read("mixtral").spec), "") << "experts are a limit of their own";
  EXPECT_EQ(not_computed(read("gpt_neox", [](Json& c) { c["use_parallel_residual"] = false; }).spec), "");
  EXPECT_EQ(not_computed(read("gpt_neox").spec), "parallel residuals");
  EXPECT_EQ(not_computed(read("bloom").spec), "a norm of the embedding, ALiBi");
  EXPECT_EQ(not_computed(read("deepseek_v2").spec), "multi-head latent attention");
  EXPECT_EQ(not_computed(read("deepseek_v3").spec), "layers that predict further tokens, multi-head latent attention");
  EXPECT_CONTAINS(not_computed(read("t5").spec), "an encoder beside the decoder");
  EXPECT_CONTAINS(not_computed(read("bert").spec), "norms behind the residual");
}

}  // namespace
}  // namespace mt
