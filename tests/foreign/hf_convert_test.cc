// Models of every family there and back, byte by byte; what does not fit is named and nothing is written.

#include "foreign/hf_convert.h"

#include <array>
#include <functional>

#include "foreign/small_models.h"
#include "layout/param_spec.h"

namespace mt {
namespace {

using test::small_models;
using test::TemporaryDirectory;

TEST(HfConvert, EveryFamilyComesBackByteByByteWithItsConfig) {
  for (const auto& m : small_models()) {
    SCOPED_TRACE(m.name);
    const TemporaryDirectory dir;
    test::write_small(m, dir / "hf", 4000);
    const auto in = import_hf({dir / "hf", dir / "native", 7, "test"});
    const Reader reader(in.path);
    EXPECT_EQ(reader.manifest().meta.iteration, 7);
    export_hf(reader, {{dir / "back", 4000}, "", std::nullopt});
    const auto [wrong, tensors] = test::wrong_bytes(dir / "back");
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(tensors, test::wrong_bytes(dir / "hf").second);
    EXPECT_EQ(tensors, in.tensors);
    EXPECT_EQ(read_json(dir / "back/config.json"), read_json(dir / "hf/config.json"));
    EXPECT_TRUE(std::filesystem::exists(dir / "back/model.safetensors.index.json")) << "several files";
    // Anew, without what was kept: the same weights, and a config that says the same model.
    export_hf(reader, {{dir / "anew"}, test::family_of(m), Json::object()});
    EXPECT_EQ(test::wrong_bytes(dir / "anew").first, 0);
    EXPECT_EQ(model_difference(read_hf_config(read_json(dir / "anew/config.json"), "").spec,
                               model_from_json(reader.manifest().meta.specs["model"], "")), "");
  }
}

// Where an element of ours is in their file, said by hand.
TEST(HfConvert, OurElementsAreTheirsAtTheirPlaces) {
  const TemporaryDirectory dir;
  const auto bytes_at = [&](const Reader& r, const char* name, const Dims& at) {
    const auto* t = r.manifest().find(name, "weight");
    std::array<std::byte, 8> out{};
    TensorRequest q;
    q.what = {t->name, "weight", t->dtype, t->shape, Box{at, Dims(at.size(), 1)}};
    q.out = out.data();
    r.read({&q, 1});
    return out;
  };
  const auto expect_at = [&](const Reader& r, const char* ours, const Dims& at, const char* theirs, std::int64_t flat, DType dtype) {
    const auto found = bytes_at(r, ours, at);
    for (std::size_t i = 0; i < static_cast<std::size_t>(bytes_of(dtype, 1)); ++i)
      EXPECT_EQ(found[i], test::hf_byte(theirs, static_cast<std::uint64_t>(bytes_of(dtype, flat)) + i)) << ours;
  };
  for (const auto& m : small_models()) {
    test::write_small(m, dir / m.name);
    const Reader r(import_hf({dir / m.name, dir / (std::string("native-") + m.name), 0, "test"}).path);
    if (m.name == std::string("gpt2")) {
      // c_attn is [16, 48]: in by q|k|v.
      expect_at(r, "decoder.layers.2.self_attention.linear_k.weight", {3, 5}, "transformer.h.2.attn.c_attn.weight", 5 * 48 + 16 + 3, m.dtype);
      expect_at(r, "decoder.layers.2.self_attention.linear_v.bias", {3}, "transformer.h.2.attn.c_attn.bias", 32 + 3, m.dtype);
      expect_at(r, "decoder.layers.1.mlp.linear_fc1.weight", {60, 2}, "transformer.h.1.mlp.c_fc.weight", 2 * 64 + 60, m.dtype);
      expect_at(r, "embedding.position_embeddings.weight", {9, 1}, "transformer.wpe.weight", 9 * 16 + 1, m.dtype);
    }
    if (m.name == std::string("mixtral")) {
      expect_at(r, "decoder.layers.3.mlp.experts.linear_fc1_up.weight", {2, 7, 5}, "model.layers.3.block_sparse_moe.experts.2.w3.weight", 7 * 16 + 5, m.dtype);
      expect_at(r, "decoder.layers.3.mlp.experts.linear_fc2.weight", {1, 7, 5}, "model.layers.3.block_sparse_moe.experts.1.w2.weight", 7 * 24 + 5, m.dtype);
    }
    // A key head after the other: its queries, its keys, its values.
    if (m.name == std::string("gpt_neox")) {
      expect_at(r, "decoder.layers.1.self_attention.linear_k.weight", {6, 5}, "gpt_neox.layers.1.attention.query_key_value.weight", (12 + 4 + 2) * 16 + 5, m.dtype);
      expect_at(r, "decoder.layers.3.self_attention.linear_v.bias", {13}, "gpt_neox.layers.3.attention.query_key_value.bias", 36 + 8 + 1, m.dtype);
    }
    if (m.name == std::string("bloom"))
      expect_at(r, "decoder.layers.1.self_attention.linear_q.weight", {9, 5}, "transformer.h.1.self_attention.query_key_value.weight", (24 + 1) * 16 + 5, m.dtype);
    if (m.name == std::string("falcon-one-key"))
      expect_at(r, "decoder.layers.0.self_attention.linear_v.weight", {2, 7}, "transformer.h.0.self_attention.query_key_value.weight", (16 + 4 + 2) * 16 + 7, m.dtype);
    if (m.name == std::string("falcon-groups")) {
      expect_at(r, "decoder.layers.2.self_attention.linear_q.weight", {13, 3}, "transformer.h.2.self_attention.query_key_value.weight", (20 + 1) * 24 + 3, m.dtype);
      expect_at(r, "decoder.layers.2.self_attention.linear_k.weight", {5, 3}, "transformer.h.2.self_attention.query_key_value.weight", (20 + 12 + 1) * 24 + 3, m.dtype);
      expect_at(r, "decoder.layers.2.pre_mlp_layernorm.bias", {9}, "transformer.h.2.ln_mlp.bias", 9, m.dtype);
    }
    if (m.name == std::string("qwen3"))
      expect_at(r, "decoder.layers.2.self_attention.k_layernorm.weight", {5}, "model.layers.2.self_attn.k_norm.weight", 5, m.dtype);
    if (m.name == std::string("qwen3_moe")) {
      expect_at(r, "decoder.layers.2.mlp.linear_fc1_up.weight", {7, 5}, "model.layers.2.mlp.up_proj.weight", 7 * 16 + 5, m.dtype);
      expect_at(r, "decoder.layers.3.mlp.experts.linear_fc2.weight", {1, 7, 5}, "model.layers.3.mlp.experts.1.down_proj.weight", 7 * 12 + 5, m.dtype);
    }
    if (m.name == std::string("deepseek_v3")) {
      expect_at(r, "decoder.layers.3.mlp.experts.linear_fc1_gate.weight", {3, 7, 5}, "model.layers.3.mlp.experts.3.gate_proj.weight", 7 * 16 + 5, m.dtype);
      expect_at(r, "mtp.layers.1.eh_proj.weight", {7, 17}, "model.layers.5.eh_proj.weight", 7 * 32 + 17, m.dtype);
      expect_at(r, "mtp.layers.0.transformer_layer.mlp.experts.linear_fc2.weight", {3, 2, 1}, "model.layers.4.mlp.experts.3.down_proj.weight", 2 * 8 + 1, m.dtype);
      expect_at(r, "decoder.layers.3.mlp.router.expert_bias", {2}, "model.layers.3.mlp.gate.e_score_correction_bias", 2, m.dtype);
      expect_at(r, "decoder.layers.0.self_attention.linear_kv_up_proj.weight", {12, 3}, "model.layers.0.self_attn.kv_b_proj.weight", 12 * 8 + 3, m.dtype);
    }
    if (m.name == std::string("t5")) {
      expect_at(r, "decoder.layers.1.cross_attention.linear_v.weight", {7, 5}, "decoder.block.1.layer.1.EncDecAttention.v.weight", 7 * 16 + 5, m.dtype);
      expect_at(r, "encoder.layers.3.mlp.linear_fc1_up.weight", {7, 5}, "encoder.block.3.layer.1.DenseReluDense.wi_1.weight", 7 * 16 + 5, m.dtype);
      expect_at(r, "encoder_relative_pos_emb.relative_attention_bias.weight", {7, 2}, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 7 * 4 + 2, m.dtype);
    }
    if (m.name == std::string("bert"))
      expect_at(r, "encoder.layers.2.post_mlp_layernorm.bias", {9}, "bert.encoder.layer.2.output.LayerNorm.bias", 9, m.dtype);
    if (m.name == std::string("llama"))
      expect_at(r, "decoder.layers.0.mlp.linear_fc1_gate.weight", {7, 5}, "model.layers.0.mlp.gate_proj.weight", 7 * 16 + 5, m.dtype);
  }
}

TEST(HfConvert, WhatDoesNotFitIsNamedAndNothingIsWritten) {
  const TemporaryDirectory dir;
  const auto& llama = small_models()[0];
  test::write_small(llama, dir / "hf");
  const Json config = read_json(dir / "hf/config.json");
  const auto error = [&](const std::function<void(Json&)>& change) {
    Json c = config;
    change(c);
    write_file_atomic(dir / "hf/config.json", c.dump());
    try {
      import_hf({dir / "hf", dir / "native", 0, "test"});
    } catch (const Error& e) {
      EXPECT_FALSE(std::filesystem::exists(dir / "native/latest_checkpointed_iteration.txt"));
      EXPECT_EQ(e.code(), Code::config) << e.what();
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_CONTAINS(error([](Json& c) { c["num_hidden_layers"] = 5; }), "model.layers.4.input_layernorm.weight is missing; ");
  EXPECT_CONTAINS(error([](Json& c) { c["num_hidden_layers"] = 3; }), "model.layers.3.input_layernorm.weight is left over");
  EXPECT_CONTAINS(error([](Json& c) { c["intermediate_size"] = 32; }), "has shape [24, 16], the config says [32, 16]");
  EXPECT_CONTAINS(error([](Json& c) { c["tie_word_embeddings"] = false; }), "lm_head.weight is missing");
  EXPECT_CONTAINS(error([](Json& c) { c["hidden_act"] = "relu"; }), "hidden_act \"relu\" is not represented");
  EXPECT_CONTAINS(error([](Json& c) { c["rope_scaling"]["rope_type"] = "yarn"; }), "yarn");
  EXPECT_CONTAINS(error([](Json& c) { c["attention_bias"] = true; }), "attention_bias");
  EXPECT_CONTAINS(error([](Json& c) { c["model_type"] = "mamba"; }), "model_type mamba is not converted");
  EXPECT_EQ(error([](Json&) {}), "no error");
}

TEST(HfConvert, AConfigSaysWhatTheModelComputesNow) {
  const Json config = parse_json(small_models()[0].config, "");
  HfModel m = read_hf_config(config, "");
  for (auto& row : m.spec.towers[0].rows) row.attention.rotary.scaling_factor = 0, row.attention.rotary.base = 7;
  const Json now = hf_config_of(*m.family, m.spec, DType::f32, config);
  EXPECT_TRUE(now["rope_scaling"].is_null());
  EXPECT_EQ(now["rope_theta"], 7.0);
  EXPECT_EQ(now["mine"], config["mine"]);
  EXPECT_EQ(model_difference(read_hf_config(now, "").spec, m.spec), "");
}

TEST(HfConvert, ATiedHeadThatIsACopyIsLeftOutAndOneThatIsNotIsAnError) {
  const TemporaryDirectory dir;
  const auto& llama = small_models()[0];
  const Json config = parse_json(llama.config, "");
  const HfModel model = read_hf_config(config, "");
  std::vector<HfTensor> tensors;
  for (const auto& t : hf_tensor_map(*model.family, model.spec, "model.")) tensors.push_back({t.name, DType::f32, t.shape});
  tensors.push_back({"lm_head.weight", DType::f32, tensors[0].shape});
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {2}});
  for (const bool same : {true, false}) {
    const auto from = dir / (same ? "same" : "other");
    write_hf({from}, tensors, config, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* out) {
      const auto& name = tensors[same && i + 2 == tensors.size() ? 0 : i].name;
      for (auto at = begin; at < end; ++at) *out++ = test::hf_byte(name, at);
    });
    if (same) {
      EXPECT_EQ(import_hf({from, dir / "native", 0, "test"}).tensors, tensors.size() - 2);
    } else {
      EXPECT_THROW(import_hf({from, dir / "no", 0, "test"}), Error);
    }
  }
}

}  // namespace
}  // namespace mt
