// GPT-2, GPT-NeoX, BLOOM and Falcon: LayerNorm, no gates, queries, keys and values in one tensor.

#include <cmath>

#include "foreign/hf_config.h"
#include "foreign/hf_family.h"

namespace mt {

namespace {

using namespace hf;

using Notices = std::vector<std::string>;
using Names = std::span<const HfName>;

// Of several spellings the one that is there, else the first.
const char* spelled(const Json& c, const char* now, const char* then) { return !has(c, now) && has(c, then) ? then : now; }

void read_activation(const Json& c, const char* key, const char* usual, ModelOptions& o) {
  const auto act = get<std::string>(c, key, usual);
  o.bias_gelu_fusion = false;
  o.openai_gelu = act == "gelu_new" || act == "gelu_pytorch_tanh" || act == "gelu_fast";
  if (!o.openai_gelu && act != "gelu")
    throw Error(Code::config, fmt::format("{} {} is not represented, only gelu and gelu_new", key, act));
}

void write_activation(const Row& ffn, const char* family, const char* key, const char* usual, Json& c) {
  if (ffn.ffn.gated || (ffn.ffn.activation != Activation::gelu_erf && ffn.ffn.activation != Activation::gelu_tanh))
    not_of(family, "the activation is not GELU");
  const bool tanh = ffn.ffn.activation == Activation::gelu_tanh;
  if (const auto now = get<std::string>(c, key, usual); (now != "gelu") != tanh) put(c, key, tanh ? "gelu_new" : "gelu");
}

void no_rope_scaling(const Json& c) {
  if (has(c, "rope_scaling") && get<std::string>(c["rope_scaling"], "rope_type", get<std::string>(c["rope_scaling"], "type", "")) != "default")
    throw Error(Code::config, "rope_scaling is not represented in this family");
}

template <class Change>
void for_rows(ModelSpec& m, Change change) {
  for (auto& row : m.towers[0].rows) change(row);
}

// ---- GPT-2 --------------------------------------------------------------------------------------------------------

ModelSpec read_gpt2(const Json& c, Notices&) {
  ModelOptions o;
  o.num_layers = whole_number(c, "n_layer");
  o.hidden_size = whole_number(c, "n_embd");
  o.num_attention_heads = whole_number(c, "n_head");
  o.max_position_embeddings = whole_number(c, "n_positions", 1024);
  o.ffn_hidden_size = whole_number(c, "n_inner", 4 * o.hidden_size);
  o.norm_epsilon = above_zero(c, "layer_norm_epsilon", 1e-5);
  o.untie_embeddings_and_output_weights = !get<bool>(c, "tie_word_embeddings", true);
  o.attention_dropout = get<double>(c, "attn_pdrop", 0.1);
  o.hidden_dropout = get<double>(c, "resid_pdrop", 0.1);
  o.init_method_std = get<double>(c, "initializer_range", 0.02);
  only(c, "scale_attn_weights", true, true);
  only(c, "scale_attn_by_inverse_layer_idx", false, false);
  only(c, "add_cross_attention", false, false);
  read_activation(c, "activation_function", "gelu_new", o);
  return build_model(o, vocab_size(c));
}
void write_gpt2(const ModelSpec& m, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, "gpt2");
  const Row& ffn = first_of(m, RowKind::ffn, "gpt2");
  const AttentionSpec& a = attention.attention;
  if (!m.learned_positions || a.rotary.on) not_of("gpt2", "positions are not learned");
  if (attention.norm.kind != NormKind::layer_norm) not_of("gpt2", "norms are not LayerNorm");
  if (a.heads != a.kv_heads || a.heads * a.head_dim != m.hidden) not_of("gpt2", "heads share keys, or are not hidden/heads wide");
  if (!a.qkv_bias || !a.proj_bias || !ffn.ffn.bias) not_of("gpt2", "linear layers have no biases");
  put(c, "n_embd", m.hidden);
  put(c, "n_layer", m.num_layers());
  put(c, "n_head", a.heads);
  put(c, "n_positions", m.max_positions);
  if (get<int>(c, "n_inner", 4 * m.hidden) != ffn.ffn.ffn_hidden) put(c, "n_inner", ffn.ffn.ffn_hidden);
  put(c, "layer_norm_epsilon", attention.norm.eps);
  write_activation(ffn, "gpt2", "activation_function", "gelu_new", c);
  if (!has(c, "activation_function")) c["activation_function"] = "gelu_new";
  put_unless(c, "tie_word_embeddings", m.tied, true);
}

// ---- GPT-NeoX -----------------------------------------------------------------------------------------------------

ModelSpec read_gpt_neox(const Json& c, Notices&) {
  ModelOptions o;
  o.num_layers = whole_number(c, "num_hidden_layers");
  o.hidden_size = whole_number(c, "hidden_size");
  o.num_attention_heads = whole_number(c, "num_attention_heads");
  o.ffn_hidden_size = whole_number(c, "intermediate_size");
  o.max_position_embeddings = whole_number(c, "max_position_embeddings", 2048);
  o.norm_epsilon = above_zero(c, "layer_norm_eps", 1e-5);
  o.position_embedding_type = "rope";
  o.rotary_percent = above_zero(c, spelled(c, "rotary_pct", "partial_rotary_factor"), 0.25);
  o.rotary_base = above_zero(c, spelled(c, "rotary_emb_base", "rope_theta"), 10000);
  if (has(c, "rope_parameters")) {
    const Json& r = c["rope_parameters"];
    only<std::string>(r, "rope_type", "default", "default");
    o.rotary_percent = above_zero(r, "partial_rotary_factor", o.rotary_percent);
    o.rotary_base = above_zero(r, "rope_theta", o.rotary_base);
  }
  no_rope_scaling(c);
  o.untie_embeddings_and_output_weights = !get<bool>(c, "tie_word_embeddings", false);
  o.attention_dropout = get<double>(c, "attention_dropout", 0.0);
  o.hidden_dropout = get<double>(c, "hidden_dropout", 0.0);
  o.init_method_std = get<double>(c, "initializer_range", 0.02);
  read_activation(c, "hidden_act", "gelu", o);
  ModelSpec m = build_model(o, vocab_size(c));
  const bool bias = get<bool>(c, "attention_bias", true), parallel = get<bool>(c, "use_parallel_residual", true);
  for_rows(m, [&](Row& row) {
    if (row.kind == RowKind::attention) row.attention.qkv_bias = row.attention.proj_bias = bias;
    if (row.kind == RowKind::ffn) row.parallel = parallel;
  });
  return m;
}

// Under each of the names that are there, or the first.
void put_all(Json& c, std::initializer_list<const char*> names, double value) {
  bool there = false;
  for (const char* name : names)
    if (has(c, name)) put(c, name, value), there = true;
  if (!there) put(c, *names.begin(), value);
}

void write_gpt_neox(const ModelSpec& m, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, "gpt_neox");
  const Row& ffn = first_of(m, RowKind::ffn, "gpt_neox");
  const AttentionSpec& a = attention.attention;
  if (!a.rotary.on || a.rotary.interleaved) not_of("gpt_neox", "positions are not rotary by halves");
  if (a.heads != a.kv_heads) not_of("gpt_neox", "heads share keys");
  put(c, "hidden_size", m.hidden);
  put(c, "num_hidden_layers", m.num_layers());
  put(c, "num_attention_heads", a.heads);
  put(c, "intermediate_size", ffn.ffn.ffn_hidden);
  put(c, "max_position_embeddings", m.max_positions);
  put(c, "layer_norm_eps", attention.norm.eps);
  put_all(c, {"rotary_pct", "partial_rotary_factor"}, a.rotary.percent);
  put_all(c, {"rotary_emb_base", "rope_theta"}, a.rotary.base);
  if (has(c, "rope_parameters")) {
    put_unless(c["rope_parameters"], "partial_rotary_factor", a.rotary.percent, a.rotary.percent);
    put_unless(c["rope_parameters"], "rope_theta", a.rotary.base, a.rotary.base);
  }
  put(c, "tie_word_embeddings", m.tied);
  put_unless(c, "attention_bias", a.qkv_bias, true);
  put_unless(c, "use_parallel_residual", ffn.parallel, true);
  write_activation(ffn, "gpt_neox", "hidden_act", "gelu", c);
}

// ---- BLOOM --------------------------------------------------------------------------------------------------------

ModelSpec read_bloom(const Json& c, Notices&) {
  ModelOptions o;
  o.num_layers = whole_number(c, spelled(c, "n_layer", "num_hidden_layers"));
  o.hidden_size = whole_number(c, spelled(c, "n_embed", "hidden_size"));
  o.num_attention_heads = whole_number(c, spelled(c, "n_head", "num_attention_heads"));
  o.max_position_embeddings = whole_number(c, "seq_length", 2048);
  o.norm_epsilon = above_zero(c, "layer_norm_epsilon", 1e-5);
  o.position_embedding_type = "none";
  o.untie_embeddings_and_output_weights = !get<bool>(c, "tie_word_embeddings", true);
  o.attention_dropout = get<double>(c, "attention_dropout", 0.0);
  o.hidden_dropout = get<double>(c, "hidden_dropout", 0.0);
  o.init_method_std = get<double>(c, "initializer_range", 0.02);
  only(c, "apply_residual_connection_post_layernorm", false, false);
  ModelSpec m = build_model(o, vocab_size(c));
  m.embedding_norm = m.final_norm;
  for_rows(m, [](Row& row) { row.attention.alibi = row.kind == RowKind::attention ? 1 : 0; });
  return m;
}

void write_bloom(const ModelSpec& m, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, "bloom");
  first_of(m, RowKind::ffn, "bloom");
  if (attention.attention.alibi == 0) not_of("bloom", "there is no ALiBi");
  put(c, spelled(c, "n_layer", "num_hidden_layers"), m.num_layers());
  put(c, spelled(c, "hidden_size", "n_embed"), m.hidden);
  if (has(c, "n_embed")) put(c, "n_embed", m.hidden);
  put(c, spelled(c, "n_head", "num_attention_heads"), attention.attention.heads);
  put_unless(c, "seq_length", m.max_positions, 2048);
  put(c, "layer_norm_epsilon", attention.norm.eps);
  put_unless(c, "tie_word_embeddings", m.tied, true);
}

// ---- Falcon -------------------------------------------------------------------------------------------------------

// Two generations. The older has one key head for all or one for each, one norm for both sub-layers of a layer, or sub-layers
// one after the other. The newer has groups, and a norm each unless its config says one.
ModelSpec read_falcon(const Json& c, Notices&) {
  ModelOptions o;
  o.num_layers = whole_number(c, spelled(c, "num_hidden_layers", "n_layer"));
  o.hidden_size = whole_number(c, spelled(c, "hidden_size", "n_embed"));
  o.num_attention_heads = whole_number(c, spelled(c, "num_attention_heads", "n_head"));
  o.ffn_hidden_size = whole_number(c, "ffn_hidden_size", 4 * o.hidden_size);
  o.max_position_embeddings = whole_number(c, "max_position_embeddings", 2048);
  o.norm_epsilon = above_zero(c, "layer_norm_epsilon", 1e-5);
  const bool newer = get<bool>(c, "new_decoder_architecture", false), parallel = get<bool>(c, "parallel_attn", true);
  const bool alibi = get<bool>(c, "alibi", false), bias = get<bool>(c, "bias", false);
  const int norms = newer ? whole_number(c, "num_ln_in_parallel_attn", 2) : whole_number(c, "num_ln_in_parallel_attn", 1);
  if (norms > 2 || (norms == 2 && !newer) || (newer && !parallel))
    throw Error(Code::config, fmt::format("num_ln_in_parallel_attn {} with new_decoder_architecture {} and parallel_attn {} is no model",
                                          norms, newer, parallel));
  o.group_query_attention = true;
  o.num_query_groups = newer                                ? whole_number(c, "num_kv_heads", o.num_attention_heads)
                       : get<bool>(c, "multi_query", true) ? 1
                                                            : o.num_attention_heads;
  o.position_embedding_type = alibi ? "none" : "rope";
  o.rotary_base = above_zero(c, "rope_theta", 10000);
  if (has(c, "rope_parameters")) {
    only<std::string>(c["rope_parameters"], "rope_type", "default", "default");
    o.rotary_base = above_zero(c["rope_parameters"], "rope_theta", o.rotary_base);
  }
  no_rope_scaling(c);
  o.untie_embeddings_and_output_weights = !get<bool>(c, "tie_word_embeddings", true);
  o.attention_dropout = get<double>(c, "attention_dropout", 0.0);
  o.hidden_dropout = get<double>(c, "hidden_dropout", 0.0);
  o.init_method_std = get<double>(c, "initializer_range", 0.02);
  o.add_bias_linear = bias;
  read_activation(c, "activation", "gelu", o);
  ModelSpec m = build_model(o, vocab_size(c));
  for_rows(m, [&](Row& row) {
    // The slopes are added before scores are scaled.
    if (alibi && row.kind == RowKind::attention) row.attention.alibi = 1 / std::sqrt(static_cast<double>(row.attention.head_dim));
    if (row.kind != RowKind::ffn) return;
    row.parallel = parallel;
    if (parallel && norms == 1) row.norm.kind = NormKind::none;
  });
  return m;
}

bool has_two_norms(const Row& ffn) { return ffn.parallel && ffn.norm.kind != NormKind::none; }

void write_falcon(const ModelSpec& m, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, "falcon");
  const Row& ffn = first_of(m, RowKind::ffn, "falcon");
  const AttentionSpec& a = attention.attention;
  const bool two = has_two_norms(ffn);
  const bool newer = ffn.parallel && (two || get<bool>(c, "new_decoder_architecture", false) || (a.kv_heads != 1 && a.kv_heads != a.heads));
  put(c, spelled(c, "num_hidden_layers", "n_layer"), m.num_layers());
  put(c, spelled(c, "hidden_size", "n_embed"), m.hidden);
  put(c, spelled(c, "num_attention_heads", "n_head"), a.heads);
  put_unless(c, "ffn_hidden_size", ffn.ffn.ffn_hidden, 4 * m.hidden);
  put_unless(c, "max_position_embeddings", m.max_positions, 2048);
  put(c, "layer_norm_epsilon", attention.norm.eps);
  put(c, "new_decoder_architecture", newer);
  put(c, "parallel_attn", ffn.parallel);
  if (newer) put_unless(c, "num_kv_heads", a.kv_heads, a.heads);
  else put(c, "multi_query", a.kv_heads == 1);
  put_unless(c, "num_ln_in_parallel_attn", two ? 2 : 1, newer ? 2 : 1);
  put(c, "alibi", a.alibi > 0);
  put(c, "bias", ffn.ffn.bias);
  if (a.rotary.on) {
    put_unless(c, "rope_theta", a.rotary.base, 10000.0);
    if (has(c, "rope_parameters")) put(c["rope_parameters"], "rope_theta", a.rotary.base);
  }
  put_unless(c, "tie_word_embeddings", m.tied, true);
  write_activation(ffn, "falcon", "activation", "gelu", c);
}

// ---- names --------------------------------------------------------------------------------------------------------

#define MT_QKV(what)                                                                                   \
  "decoder.layers.{L}.self_attention.linear_q." what " decoder.layers.{L}.self_attention.linear_k." what \
  " decoder.layers.{L}.self_attention.linear_v." what

constexpr HfName kGpt2Names[] = {
    {"transformer.wte.weight", "embedding.word_embeddings.weight"},
    {"transformer.wpe.weight", "embedding.position_embeddings.weight"},
    {"transformer.h.{L}.ln_1.weight", "decoder.layers.{L}.input_layernorm.weight"},
    {"transformer.h.{L}.ln_1.bias", "decoder.layers.{L}.input_layernorm.bias"},
    {"transformer.h.{L}.attn.c_attn.weight", MT_QKV("weight"), HfLayout::transposed},
    {"transformer.h.{L}.attn.c_attn.bias", MT_QKV("bias")},
    {"transformer.h.{L}.attn.c_proj.weight", "decoder.layers.{L}.self_attention.linear_proj.weight", HfLayout::transposed},
    {"transformer.h.{L}.attn.c_proj.bias", "decoder.layers.{L}.self_attention.linear_proj.bias"},
    {"transformer.h.{L}.ln_2.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"},
    {"transformer.h.{L}.ln_2.bias", "decoder.layers.{L}.pre_mlp_layernorm.bias"},
    {"transformer.h.{L}.mlp.c_fc.weight", "decoder.layers.{L}.mlp.linear_fc1.weight", HfLayout::transposed},
    {"transformer.h.{L}.mlp.c_fc.bias", "decoder.layers.{L}.mlp.linear_fc1.bias"},
    {"transformer.h.{L}.mlp.c_proj.weight", "decoder.layers.{L}.mlp.linear_fc2.weight", HfLayout::transposed},
    {"transformer.h.{L}.mlp.c_proj.bias", "decoder.layers.{L}.mlp.linear_fc2.bias"},
    {"transformer.ln_f.weight", "decoder.final_layernorm.weight"},
    {"transformer.ln_f.bias", "decoder.final_layernorm.bias"},
    {"lm_head.weight", "output_layer.weight"}};

constexpr HfName kGptNeoxNames[] = {
    {"gpt_neox.embed_in.weight", "embedding.word_embeddings.weight"},
    {"gpt_neox.layers.{L}.input_layernorm.weight", "decoder.layers.{L}.input_layernorm.weight"},
    {"gpt_neox.layers.{L}.input_layernorm.bias", "decoder.layers.{L}.input_layernorm.bias"},
    {"gpt_neox.layers.{L}.attention.query_key_value.weight", MT_QKV("weight"), HfLayout::by_group},
    {"gpt_neox.layers.{L}.attention.query_key_value.bias", MT_QKV("bias"), HfLayout::by_group},
    {"gpt_neox.layers.{L}.attention.dense.weight", "decoder.layers.{L}.self_attention.linear_proj.weight"},
    {"gpt_neox.layers.{L}.attention.dense.bias", "decoder.layers.{L}.self_attention.linear_proj.bias"},
    {"gpt_neox.layers.{L}.post_attention_layernorm.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"},
    {"gpt_neox.layers.{L}.post_attention_layernorm.bias", "decoder.layers.{L}.pre_mlp_layernorm.bias"},
    {"gpt_neox.layers.{L}.mlp.dense_h_to_4h.weight", "decoder.layers.{L}.mlp.linear_fc1.weight"},
    {"gpt_neox.layers.{L}.mlp.dense_h_to_4h.bias", "decoder.layers.{L}.mlp.linear_fc1.bias"},
    {"gpt_neox.layers.{L}.mlp.dense_4h_to_h.weight", "decoder.layers.{L}.mlp.linear_fc2.weight"},
    {"gpt_neox.layers.{L}.mlp.dense_4h_to_h.bias", "decoder.layers.{L}.mlp.linear_fc2.bias"},
    {"gpt_neox.final_layer_norm.weight", "decoder.final_layernorm.weight"},
    {"gpt_neox.final_layer_norm.bias", "decoder.final_layernorm.bias"},
    {"embed_out.weight", "output_layer.weight"}};

// BLOOM's and Falcon's, but for the norms of a layer.
#define MT_EMBEDDING {"transformer.word_embeddings.weight", "embedding.word_embeddings.weight"}
#define MT_SUB_LAYERS                                                                                               \
  {"transformer.h.{L}.self_attention.query_key_value.weight", MT_QKV("weight"), HfLayout::by_group},                \
  {"transformer.h.{L}.self_attention.query_key_value.bias", MT_QKV("bias"), HfLayout::by_group},                    \
  {"transformer.h.{L}.self_attention.dense.weight", "decoder.layers.{L}.self_attention.linear_proj.weight"},        \
  {"transformer.h.{L}.self_attention.dense.bias", "decoder.layers.{L}.self_attention.linear_proj.bias"},            \
  {"transformer.h.{L}.mlp.dense_h_to_4h.weight", "decoder.layers.{L}.mlp.linear_fc1.weight"},                       \
  {"transformer.h.{L}.mlp.dense_h_to_4h.bias", "decoder.layers.{L}.mlp.linear_fc1.bias"},                           \
  {"transformer.h.{L}.mlp.dense_4h_to_h.weight", "decoder.layers.{L}.mlp.linear_fc2.weight"},                       \
  {"transformer.h.{L}.mlp.dense_4h_to_h.bias", "decoder.layers.{L}.mlp.linear_fc2.bias"}
#define MT_NORMS(first, second)                                                                          \
  {"transformer.h.{L}." first ".weight", "decoder.layers.{L}.input_layernorm.weight"},                   \
  {"transformer.h.{L}." first ".bias", "decoder.layers.{L}.input_layernorm.bias"},                       \
  {"transformer.h.{L}." second ".weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"},                \
  {"transformer.h.{L}." second ".bias", "decoder.layers.{L}.pre_mlp_layernorm.bias"}
#define MT_HEAD                                                              \
  {"transformer.ln_f.weight", "decoder.final_layernorm.weight"},             \
  {"transformer.ln_f.bias", "decoder.final_layernorm.bias"}, {"lm_head.weight", "output_layer.weight"}

constexpr HfName kBloomNames[] = {MT_EMBEDDING,
                                  {"transformer.word_embeddings_layernorm.weight", "embedding.layer_norm.weight"},
                                  {"transformer.word_embeddings_layernorm.bias", "embedding.layer_norm.bias"},
                                  MT_SUB_LAYERS, MT_NORMS("input_layernorm", "post_attention_layernorm"), MT_HEAD};
constexpr HfName kFalconNames[] = {MT_EMBEDDING, MT_SUB_LAYERS, MT_NORMS("input_layernorm", "post_attention_layernorm"), MT_HEAD};
constexpr HfName kFalconTwoNormsNames[] = {MT_EMBEDDING, MT_SUB_LAYERS, MT_NORMS("ln_attn", "ln_mlp"), MT_HEAD};

#undef MT_QKV
#undef MT_EMBEDDING
#undef MT_SUB_LAYERS
#undef MT_NORMS
#undef MT_HEAD

Names gpt2_names(const ModelSpec&) { return kGpt2Names; }
Names gpt_neox_names(const ModelSpec&) { return kGptNeoxNames; }
Names bloom_names(const ModelSpec&) { return kBloomNames; }
Names falcon_names(const ModelSpec& m) {
  if (has_two_norms(first_of(m, RowKind::ffn, "falcon"))) return kFalconTwoNormsNames;
  return kFalconNames;
}

constexpr const char* kGpt2Ignored[] = {".attn.bias", ".attn.masked_bias"};
constexpr const char* kGptNeoxIgnored[] = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"};
constexpr const char* kFalconIgnored[] = {".rotary_emb.inv_freq", ".rotary.inv_freq"};
constexpr HfCopy kGpt2Copies[] = {{"lm_head.weight", "transformer.wte.weight"}};
constexpr HfCopy kGptNeoxCopies[] = {{"embed_out.weight", "gpt_neox.embed_in.weight"}};
constexpr HfCopy kBloomCopies[] = {{"lm_head.weight", "transformer.word_embeddings.weight"}};

constexpr HfFamily kGpt2{"gpt2", "GPT2LMHeadModel", "transformer.", gpt2_names, kGpt2Ignored, kGpt2Copies, read_gpt2, write_gpt2};
constexpr HfFamily kGptNeox{"gpt_neox",      "GPTNeoXForCausalLM", "gpt_neox.",   gpt_neox_names,
                            kGptNeoxIgnored, kGptNeoxCopies,       read_gpt_neox, write_gpt_neox};
constexpr HfFamily kBloom{"bloom", "BloomForCausalLM", "transformer.", bloom_names, {}, kBloomCopies, read_bloom, write_bloom};
constexpr HfFamily kFalcon{"falcon",       "FalconForCausalLM", "transformer.", falcon_names,
                           kFalconIgnored, kBloomCopies,        read_falcon,    write_falcon};

}  // namespace

const HfFamily& gpt2_family() { return kGpt2; }
const HfFamily& gpt_neox_family() { return kGptNeox; }
const HfFamily& bloom_family() { return kBloom; }
const HfFamily& falcon_family() { return kFalcon; }

}  // namespace mt
