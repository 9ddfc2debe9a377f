// Names and cuts of Megatron's tensors, element by element as said by hand.

#include "foreign/megatron_map.h"

#include "foreign/golden_files.h"
#include "foreign/megatron_args.h"
#include "foreign/model_words.h"
#include "layout/param_spec.h"

namespace mt {
namespace {

ModelSpec model_of(int heads, int groups, int experts = 0) {
  ModelOptions o;
  o.num_layers = 4;
  o.hidden_size = 8;
  o.num_attention_heads = heads;
  o.kv_channels = 2;
  o.group_query_attention = groups != heads;
  o.num_query_groups = groups;
  o.ffn_hidden_size = 12;
  o.max_position_embeddings = 16;
  o.swiglu = true;
  o.num_experts = experts;
  return build_model(o, 10);
}

const MegatronTensor& named(const std::vector<MegatronTensor>& all, const std::string& name) {
  for (const auto& t : all)
    if (t.theirs.name == name) return t;
  ADD_FAILURE() << name;
  return all.front();
}

// The tensor of ours, and its row, that a row of theirs is.
std::string row_of(const MappedTensor& t, std::int64_t row) {
  for (const auto& p : t.parts)
    if (row >= p.their_box.offset[0] && row < p.their_box.offset[0] + p.their_box.extent[0])
      return p.ours.substr(p.ours.rfind('.', p.ours.rfind('.') - 1) + 1) + " " + std::to_string(p.our_box.offset[0] + row - p.their_box.offset[0]);
  return "padding";
}

TEST(MegatronMap, QueriesKeysAndValuesLieByGroup) {
  // Four heads in two groups, two features a head: q0 q1 k0 v0 | q2 q3 k1 v1.
  const auto model = model_of(4, 2);
  MegatronCut cut{1, 1, 1, {4}, 16};
  const auto all = megatron_tensors(model, cut, 0, 0, 0, "");
  const auto& whole_one = named(all, "decoder.layers.1.self_attention.linear_qkv.weight").theirs;
  const std::vector<std::string> expected{"linear_q.weight 0", "linear_q.weight 1", "linear_q.weight 2", "linear_q.weight 3",
                                          "linear_k.weight 0", "linear_k.weight 1", "linear_v.weight 0", "linear_v.weight 1",
                                          "linear_q.weight 4", "linear_q.weight 5", "linear_q.weight 6", "linear_q.weight 7",
                                          "linear_k.weight 2", "linear_k.weight 3", "linear_v.weight 2", "linear_v.weight 3"};
  for (std::size_t r = 0; r < expected.size(); ++r) EXPECT_EQ(row_of(whole_one, static_cast<std::int64_t>(r)), expected[r]);
  // On four ranks a group is on two of them.
  cut.tp = 4;
  const auto second = megatron_tensors(model, cut, 1, 0, 0, "");
  const auto& part = named(second, "decoder.layers.1.self_attention.linear_qkv.weight").theirs;
  EXPECT_EQ(part.shape, (Dims{4, 8}));
  for (std::int64_t r = 0; r < 4; ++r) EXPECT_EQ(row_of(part, r), expected[static_cast<std::size_t>(4 + r)]);
}

TEST(MegatronMap, OfVersionZeroAllQueriesOfARankComeFirst) {
  const auto model = model_of(4, 4);
  MegatronCut cut{2, 1, 1, {4}, 16, true};
  const auto second = megatron_tensors(model, cut, 1, 0, 0, "");
  const auto& t = named(second, "decoder.layers.0.self_attention.linear_qkv.weight").theirs;
  EXPECT_EQ(row_of(t, 0), "linear_q.weight 4");
  EXPECT_EQ(row_of(t, 4), "linear_k.weight 4");
  EXPECT_EQ(row_of(t, 11), "linear_v.weight 7");
}

TEST(MegatronMap, GateAndUpAreHalvesOfEachRankAndVocabularyEndsInPadding) {
  const auto model = model_of(4, 2);
  const MegatronCut cut{2, 1, 1, {4}, 16};
  const auto second = megatron_tensors(model, cut, 1, 0, 0, "");
  const auto& fc1 = named(second, "decoder.layers.3.mlp.linear_fc1.weight").theirs;
  EXPECT_EQ(fc1.shape, (Dims{12, 8}));
  EXPECT_EQ(row_of(fc1, 0), "linear_fc1_gate.weight 6");
  EXPECT_EQ(row_of(fc1, 6), "linear_fc1_up.weight 6");
  const auto& table = named(second, "embedding.word_embeddings.weight").theirs;
  EXPECT_EQ(table.shape, (Dims{8, 8}));
  EXPECT_EQ(row_of(table, 1), "word_embeddings.weight 9");
  EXPECT_EQ(row_of(table, 2), "padding");
  EXPECT_TRUE(named(second, "decoder.final_layernorm.weight").replica) << "whole on each rank, counted on the first";
}

TEST(MegatronMap, EveryLayoutHoldsEveryElementOnce) {
  for (const int experts : {0, 4}) {
    const auto model = model_of(4, 2, experts);
    std::vector<NamedShape> ours;
    for (const auto& t : logical_tensors(model)) ours.push_back({t.name, t.shape});
    for (const int tp : {1, 2, 4})
      for (const int stages : {1, 2, 4})
        for (const int ep : {1, 2}) {
          if (experts == 0 && ep > 1) continue;
          const MegatronCut cut{tp, stages, ep, std::vector<int>(static_cast<std::size_t>(stages), 4 / stages), 16};
          std::vector<MappedTensor> map;
          for (int t = 0; t < tp; ++t)
            for (int s = 0; s < stages; ++s)
              for (int e = 0; e < ep; ++e)
                for (auto& m : megatron_tensors(model, cut, t, s, e, "")) {
                  m.theirs.name += fmt::format(" on {} {} {}", t, s, e);
                  if (!m.replica) map.push_back(m.theirs);
                }
          EXPECT_EQ(mapping_problems(map, ours), std::vector<std::string>{}) << tp << " " << stages << " " << ep;
        }
    for (const bool stacked : {false, true})
      EXPECT_EQ(mapping_problems(megatron_dist_tensors(model, 16, stacked, ""), ours), std::vector<std::string>{});
  }
}

TEST(MegatronMap, OldAndNewSpellingsAreOneName) {
  const std::vector<std::pair<std::string, std::string>> names{
      {"decoder.layers.1.self_attention.linear_qkv.layer_norm_weight", "decoder.layers.5.input_layernorm.weight"},
      {"decoder.layers.1.mlp.linear_fc1.layer_norm_bias", "decoder.layers.5.pre_mlp_layernorm.bias"},
      {"language_model.encoder.layers.0.self_attention.query_key_value.bias", "decoder.layers.4.self_attention.linear_qkv.bias"},
      {"language_model.transformer.layers.0.attention.dense.weight", "decoder.layers.4.self_attention.linear_proj.weight"},
      {"language_model.encoder.layers.10.post_attention_layernorm.weight", "decoder.layers.14.pre_mlp_layernorm.weight"},
      {"language_model.encoder.layers.0.mlp.dense_4h_to_h.weight", "decoder.layers.4.mlp.linear_fc2.weight"},
      {"language_model.encoder.final_layernorm.weight", "decoder.final_layernorm.weight"},
      {"language_model.embedding.word_embeddings.weight", "embedding.word_embeddings.weight"},
      {"word_embeddings_for_head.weight", "output_layer.weight"},
      {"module.decoder.layers.0.mlp.router.weight", "decoder.layers.4.mlp.router.weight"},
      {"decoder.layers.0.mlp.experts.local_experts.1.linear_fc1.weight", "decoder.layers.4.mlp.experts.3.linear_fc1.weight"},
      {"decoder.layers.0.mlp.experts.linear_fc2.weight1", "decoder.layers.4.mlp.experts.3.linear_fc2.weight"},
      {"decoder.layers.x", "decoder.layers.x"},
      {"decoder.layers.7", "decoder.layers.7"}};
  for (const auto& [theirs, ours] : names) EXPECT_EQ(megatron_name(theirs, 4, 2), ours);
  const auto dense = model_of(4, 2), experts = model_of(4, 2, 4);
  EXPECT_EQ(spelled("decoder.layers.3.pre_mlp_layernorm.weight", dense, {2, 0, true}), "decoder.layers.1.mlp.linear_fc1.layer_norm_weight");
  EXPECT_EQ(spelled("decoder.layers.3.pre_mlp_layernorm.weight", dense, {2, 0, false}), "decoder.layers.1.pre_mlp_layernorm.weight");
  EXPECT_EQ(spelled("decoder.layers.3.pre_mlp_layernorm.weight", experts, {2, 0, true}), "decoder.layers.1.pre_mlp_layernorm.weight");
  EXPECT_EQ(spelled("decoder.layers.3.mlp.experts.3.linear_fc1.weight", experts, {2, 2, true}), "decoder.layers.1.mlp.experts.local_experts.1.linear_fc1.weight");
  EXPECT_EQ(megatron_dist_name("decoder.layers.mlp.linear_fc1.layer_norm_weight"), "decoder.layers.pre_mlp_layernorm.weight");
  EXPECT_EQ(megatron_dist_name("decoder.layers.11.self_attention.linear_qkv.layer_norm_bias"), "decoder.layers.11.input_layernorm.bias");
  EXPECT_EQ(dist_spelled("decoder.layers.pre_mlp_layernorm.weight", dense, true), "decoder.layers.mlp.linear_fc1.layer_norm_weight");
  EXPECT_EQ(dist_spelled("decoder.layers.pre_mlp_layernorm.weight", experts, true), "decoder.layers.pre_mlp_layernorm.weight");
  EXPECT_EQ(dist_spelled("decoder.layers.pre_mlp_layernorm.weight", experts, false), "decoder.layers.mlp.linear_fc1.layer_norm_weight");
}

TEST(MegatronArgs, WhatIsMissingOrComputedOtherwiseIsNamed) {
  const auto error_of = [](const Json& args) {
    try {
      model_of_megatron(args, std::nullopt, "here");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const Json good = megatron_args_of(model_of(4, 2), 16, Json::object(), "");
  EXPECT_EQ(error_of(good), "no error");
  EXPECT_CONTAINS(error_of(Json::object()), "num_layers, hidden_size, num_attention_heads, max_position_embeddings, padded_vocab_size");
  const auto with = [&](const char* key, const Json& value) {
    Json a = good;
    a[key] = value;
    return error_of(a);
  };
  EXPECT_CONTAINS(with("multi_latent_attention", true), "args.multi_latent_attention is true");
  EXPECT_CONTAINS(with("position_embedding_type", "mrope"), "mrope");
  EXPECT_CONTAINS(with("hidden_size", "wide"), "args.hidden_size is \"wide\"");
  for (const char* key : {"num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "ffn_hidden_size"})
    EXPECT_CONTAINS(with(key, 0), std::string("args.") + key + " is 0");
  EXPECT_CONTAINS(with("num_layers", -3), "args.num_layers is -3");
  EXPECT_CONTAINS(with("vocab_size", 17), "a vocabulary of 17 in tables of 16 rows");
  EXPECT_EQ(with("multi_latent_attention", false), "no error");
  Json without = good;
  without.erase("vocab_size");
  const auto m = model_of_megatron(without, std::nullopt, "");
  EXPECT_EQ(m.spec.vocab_size, 16);
  EXPECT_EQ(m.notices.size(), 1u);
  EXPECT_EQ(model_of_megatron(without, 10, "").spec.vocab_size, 10);
}

TEST(MegatronArgs, WhatTheyCannotSayIsNamedByItsLayer) {
  ModelSpec m = model_of(4, 2);
  m.towers[0].rows[2].norm.eps *= 2;
  EXPECT_EQ(difference_in_words(model_difference(m, model_of(4, 2)), m).rfind("layer 1's ", 0), 0u);
  EXPECT_EQ(difference_in_words("hidden: 16 and 8", m), "hidden: 16 and 8");
  EXPECT_EQ(difference_in_words("towers[0].rows[99].alibi: only in one", m), "a layer's alibi");
}

TEST(MegatronArgs, EveryModelThatTheySayComesBack) {
  for (const int experts : {0, 4})
    for (const int groups : {1, 2, 4}) {
      const auto m = model_of(4, groups, experts);
      EXPECT_EQ(model_difference(model_of_megatron(megatron_args_of(m, 16, Json::object(), ""), std::nullopt, "").spec, m), "");
    }
}

}  // namespace
}  // namespace mt
