// Specs through JSON and back, and what broken JSON says.

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/models.h"
#include "layout/parallel_spec.h"

namespace mt {
namespace {

TEST(SpecJson, ModelsComeBackWhole) {
  std::vector<ModelOptions> all = {test::small_options({true, 8, 2, 61}), test::small_options({false, 8, 8, 61})};
  all[0].rotary_interleaved = all[0].use_rope_scaling = true;
  all[0].rotary_percent = 0.5;
  all[0].rotary_base = 1e6;
  all[1].squared_relu = true;
  all[1].attention_dropout = 0.25;
  all.push_back(all[1]);
  all.back().squared_relu = false;
  all.back().bias_gelu_fusion = false;
  all.back().embedding_init_method_std = 1.0 / 3;
  for (const auto& o : all) {
    ModelSpec model = build_model(o, 61);
    model.towers[0].rows[1].kind = RowKind::none;
    const Json json = to_json(model);
    const ModelSpec back = model_from_json(parse_json(json.dump(), "text"), "text");
    EXPECT_EQ(to_json(back).dump(), json.dump());
    EXPECT_EQ(num_parameters(back), num_parameters(model));
    const auto &a = model.towers[0].rows[0].attention, &b = back.towers[0].rows[0].attention;
    EXPECT_EQ(a.rotary.on, b.rotary.on);
    EXPECT_EQ(a.rotary.scaling_factor, b.rotary.scaling_factor);
    EXPECT_EQ(a.rotary.percent, b.rotary.percent);
    EXPECT_EQ(a.rotary.interleaved, b.rotary.interleaved);
    EXPECT_EQ(a.dropout, b.dropout);
    EXPECT_EQ(model.embedding_init_std, back.embedding_init_std);
    EXPECT_EQ(model.towers[0].rows[3].ffn.activation, back.towers[0].rows[3].ffn.activation);
  }
}

// What models of earlier versions could not have: there and back, and absent where it is not used, so that their text is as it was.
TEST(SpecJson, WhatIsRareComesBackAndIsLeftOutWhereItIsNot) {
  const ModelSpec plain = test::small_model();
  ModelSpec rare = plain;
  rare.embedding_norm = {NormKind::rms_norm, 1e-6};
  rare.token_types = 2, rare.mtp_layers = 3, rare.output_scale = 0.25;
  rare.masked_head = rare.pooler = true;
  rare.final_norm.kind = NormKind::none;
  auto& attention = rare.towers[0].rows[0].attention;
  attention.qk_norm = true, attention.causal = false, attention.alibi = 0.5, attention.scale = 1;
  attention.relative = {8, 20};
  attention.latent = {8, 12, 6, 4, 5};
  auto& network = rare.towers[0].rows[1];
  network.kind = RowKind::moe, network.parallel = network.post_norm = true;
  network.norm.kind = NormKind::none, network.ffn.activation = Activation::relu;
  network.moe = {4, 2, 8, true, false, true, 2, 1, 2.5};
  rare.towers[0].rows[2].kind = RowKind::cross_attention;
  rare.towers.insert(rare.towers.begin(), Tower{"encoder", plain.towers[0].rows});
  const Json json = to_json(rare);
  const ModelSpec back = model_from_json(parse_json(json.dump(), "text"), "text");
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_EQ(back.num_layers(), 4);
  EXPECT_EQ(back.decoder().name, "decoder");
  EXPECT_EQ(back.decoder().rows[0].attention.latent.value, 5);
  EXPECT_EQ(back.decoder().rows[1].moe.scale, 2.5);
  EXPECT_EQ(back.mtp_layers, 3);
  for (const char* key : {"embedding_norm", "token_types", "mtp_layers", "output_scale", "masked_head", "pooler", "qk_norm", "causal",
                          "alibi", "scale\":", "relative", "latent", "parallel", "post_norm", "sigmoid"}) {
    EXPECT_EQ(to_json(plain).dump().find(key), std::string::npos) << key;
  }
}

TEST(SpecJson, LayoutsComeBackWhole) {
  ParallelSpec p;
  p.tp = 2, p.cp = 3, p.pp = 4, p.dp = 5, p.ep = 6, p.etp = 7, p.vpp = 8, p.zero_stage = 1;
  p.optimizer_instances = 3;
  p.sequence_parallel = true;
  p.order = "tp-cp-ep-pp-dp";
  const ParallelSpec q = parallel_from_json(parse_json(to_json(p).dump(), "text"), "text");
  EXPECT_EQ(to_json(q).dump(), to_json(p).dump());
  EXPECT_EQ(parallel_text(q), "tp 2, cp 3, pp 4, dp 5, ep 6, etp 7, vpp 8, sequence parallel, ZeRO 1 in 3 instances");
  EXPECT_EQ(p.world(), 120);
}

void expect_corrupt(const Json& json, const std::string& says) {
  try {
    (void)model_from_json(json, "manifest.json");
    ADD_FAILURE() << "accepted: " << json.dump().substr(0, 200);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what() << " does not say " << says;
    EXPECT_NE(std::string(e.what()).find("manifest.json"), std::string::npos) << e.what();
  }
}

TEST(SpecJson, EveryMissingOrWrongFieldOfAModelIsNamed) {
  const Json good = to_json(test::small_model());
  for (const auto& [key, value] : good.items()) {
    Json without = good, wrong = good;
    without.erase(key);
    expect_corrupt(without, key);
    wrong[key] = value.is_string() ? Json(7) : Json("seven");
    expect_corrupt(wrong, key);
  }
  const Json& row = good["towers"][0]["rows"][0];
  for (const auto& [key, value] : row.items()) {
    Json bad = good;
    bad["towers"][0]["rows"][0][key] = value.is_string() ? Json(7) : Json("seven");
    expect_corrupt(bad, key);
  }
}

TEST(SpecJson, TowersOfAnotherKindAreCorruptNotACrash) {
  const Json good = to_json(test::small_model());
  for (const Json& towers : {Json(3), Json::array(), Json::object(), Json::array({1, 2}), Json("x"),
                             Json{{"a", 1}}, Json(nullptr)}) {
    Json bad = good;
    bad["towers"] = towers;
    expect_corrupt(bad, "");
    bad = good;
    if (towers.is_array() && towers.empty()) continue;  // a tower without rows is legal
    bad["towers"][0]["rows"] = towers;
    expect_corrupt(bad, "");
  }
  Json bad = good;
  bad["towers"][0]["rows"][0]["kv_heads"] = 0;
  expect_corrupt(bad, "all are at least 1");
  bad = good;
  bad["towers"][0]["rows"][1]["activation"] = "tanh";
  expect_corrupt(bad, "unknown name 'tanh'");
  expect_corrupt(Json(3), "");
  expect_corrupt(Json::array(), "");
}

TEST(SpecJson, EveryMissingFieldOfALayoutIsNamed) {
  const Json good = to_json(ParallelSpec{});
  for (const auto& [key, value] : good.items()) {
    Json without = good;
    without.erase(key);
    try {
      (void)parallel_from_json(without, "m");
      ADD_FAILURE() << key;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt);
      EXPECT_NE(std::string(e.what()).find("'" + key + "'"), std::string::npos) << e.what();
    }
  }
}

TEST(ModelOptions, DefaultsAreMegatrons) {
  ModelOptions o;
  o.num_layers = 3;
  o.hidden_size = 1024;
  o.num_attention_heads = 16;
  const ModelSpec gpt = build_model(o, 50257);
  const auto &attention = gpt.towers[0].rows[0].attention;
  const auto &ffn = gpt.towers[0].rows[1].ffn;
  EXPECT_EQ(gpt.num_layers(), 3);
  EXPECT_EQ(ffn.ffn_hidden, 4096);
  EXPECT_EQ(ffn.activation, Activation::gelu_tanh);
  EXPECT_EQ(attention.kv_heads, 16);
  EXPECT_EQ(attention.head_dim, 64);
  EXPECT_TRUE(gpt.learned_positions && gpt.tied && attention.qkv_bias && ffn.bias);
  EXPECT_DOUBLE_EQ(gpt.output_init_std, 0.02 / std::sqrt(6.0));
  EXPECT_EQ(padded_vocab(gpt, 1), 50304);
  EXPECT_EQ(padded_vocab(gpt, 8), 51200);
  o.swiglu = true;
  o.add_bias_linear = false;
  o.add_qkv_bias = true;
  const ModelSpec gated = build_model(o, 50257);
  EXPECT_EQ(gated.towers[0].rows[1].ffn.ffn_hidden, 2688) << "1024·8/3 = 2730 down to a multiple of 64";
  EXPECT_EQ(gated.towers[0].rows[1].ffn.activation, Activation::silu);
  EXPECT_TRUE(gated.towers[0].rows[0].attention.qkv_bias);
  EXPECT_FALSE(gated.towers[0].rows[0].attention.proj_bias);
}

}  // namespace
}  // namespace mt
