// The families: keys of their configs and names of their tensors.

#include <cmath>

#include "base/error.h"
#include "foreign/hf_family.h"

namespace mt {

namespace {

// A key, null counting as absent.
bool has(const Json& c, const char* key) { return c.contains(key) && !c[key].is_null(); }

template <class T>
T get(const Json& c, const char* key, const T& otherwise) {
  return has(c, key) ? json_field<T>(c, key, "") : otherwise;
}

int whole_number(const Json& c, const char* key) {
  const auto n = json_field<std::int64_t>(c, key, "");
  if (n < 1 || n > (1 << 28)) throw Error(Code::config, fmt::format("{} is {}", key, n));
  return static_cast<int>(n);
}
int whole_number(const Json& c, const char* key, int otherwise) { return has(c, key) ? whole_number(c, key) : otherwise; }

double above_zero(const Json& c, const char* key, double otherwise) {
  const double v = get<double>(c, key, otherwise);
  if (!(v > 0 && std::isfinite(v))) throw Error(Code::config, fmt::format("{} is {}", key, v));
  return v;
}

// A key that changes what is computed, at the only value that is computed here.
template <class T>
void only(const Json& c, const char* key, const T& value, const T& otherwise) {
  if (const T found = get<T>(c, key, otherwise); found != value)
    throw Error(Code::config, fmt::format("{} {} is not represented, only {}", key, json_line(Json(found)), json_line(Json(value))));
}

[[noreturn]] void not_of(const char* family, const std::string& why) {
  throw Error(Code::config, fmt::format("the model is none of {}: {}", family, why));
}

// ---- LLaMA and those that follow it -------------------------------------------------------------------------------

void read_rotary(const Json& c, ModelOptions& o, double base) {
  const Json* scaling = nullptr;
  o.position_embedding_type = "rope";
  o.rotary_base = above_zero(c, "rope_theta", base);
  if (has(c, "rope_parameters")) {
    scaling = &c["rope_parameters"];
    o.rotary_base = above_zero(*scaling, "rope_theta", o.rotary_base);
  } else if (has(c, "rope_scaling")) {
    scaling = &c["rope_scaling"];
  }
  if (scaling == nullptr) return;
  const auto type = get<std::string>(*scaling, "rope_type", get<std::string>(*scaling, "type", "default"));
  if (type == "default") return;
  if (type != "llama3") throw Error(Code::config, "rope_scaling of type " + type + " is not represented, only llama3");
  only(*scaling, "low_freq_factor", 1.0, 1.0);
  only(*scaling, "high_freq_factor", 4.0, 4.0);
  only<std::int64_t>(*scaling, "original_max_position_embeddings", 8192, 8192);
  o.use_rope_scaling = true;
  o.rope_scaling_factor = json_field<double>(*scaling, "factor", "rope_scaling");
}

ModelOptions llama_like(const Json& c, double rope_base) {
  ModelOptions o;
  o.num_layers = whole_number(c, "num_hidden_layers");
  o.hidden_size = whole_number(c, "hidden_size");
  o.ffn_hidden_size = whole_number(c, "intermediate_size");
  o.num_attention_heads = whole_number(c, "num_attention_heads");
  o.num_query_groups = whole_number(c, "num_key_value_heads", o.num_attention_heads);
  o.group_query_attention = o.num_query_groups != o.num_attention_heads;
  if (has(c, "head_dim")) o.kv_channels = whole_number(c, "head_dim");
  o.max_position_embeddings = whole_number(c, "max_position_embeddings", 2048);
  o.normalization = "RMSNorm";
  o.norm_epsilon = above_zero(c, "rms_norm_eps", 1e-6);
  o.swiglu = true;
  o.add_bias_linear = false;
  o.untie_embeddings_and_output_weights = !get<bool>(c, "tie_word_embeddings", false);
  o.attention_dropout = get<double>(c, "attention_dropout", 0.0);
  o.hidden_dropout = 0;
  o.init_method_std = get<double>(c, "initializer_range", 0.02);
  only<std::string>(c, "hidden_act", "silu", "silu");
  read_rotary(c, o, rope_base);
  return o;
}

const Row& first_of(const ModelSpec& m, RowKind kind, const char* family) {
  for (const auto& r : m.decoder().rows)
    if (r.kind == kind) return r;
  not_of(family, kind == RowKind::attention ? "no attention" : kind == RowKind::moe ? "no experts" : "no feed-forward network");
}

void write_rotary(const RotarySpec& r, Json& c) {
  if (has(c, "rope_parameters")) c["rope_parameters"]["rope_theta"] = r.base;
  else c["rope_theta"] = r.base;
  if (r.scaling_factor <= 0) {
    if (has(c, "rope_parameters")) c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", r.base}};
    if (has(c, "rope_scaling")) c["rope_scaling"] = nullptr;
    return;
  }
  Json& scaling = has(c, "rope_parameters") ? c["rope_parameters"] : c["rope_scaling"];
  if (!has(c, "rope_parameters") && scaling.is_null())
    scaling = {{"rope_type", "llama3"}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  scaling["factor"] = r.scaling_factor;
}

void write_llama_like(const ModelSpec& m, Json& c, const char* family, RowKind network) {
  const Row& attention = first_of(m, RowKind::attention, family);
  const Row& ffn = first_of(m, network, family);
  const AttentionSpec& a = attention.attention;
  if (m.learned_positions || !a.rotary.on || a.rotary.percent != 1.0 || a.rotary.interleaved) not_of(family, "positions are not rotary over whole heads");
  if (attention.norm.kind != NormKind::rms_norm) not_of(family, "norms are not RMSNorm");
  if (a.proj_bias || ffn.ffn.bias) not_of(family, "linear layers have biases");
  if (!ffn.ffn.gated || ffn.ffn.activation != Activation::silu) not_of(family, "the activation is not gated SiLU");
  c["hidden_size"] = m.hidden;
  c["num_hidden_layers"] = m.num_layers();
  c["intermediate_size"] = ffn.ffn.ffn_hidden;
  c["num_attention_heads"] = a.heads;
  c["num_key_value_heads"] = a.kv_heads;
  if (has(c, "head_dim") || a.heads * a.head_dim != m.hidden) c["head_dim"] = a.head_dim;
  c["max_position_embeddings"] = m.max_positions;
  c["rms_norm_eps"] = attention.norm.eps;
  c["hidden_act"] = "silu";
  c["tie_word_embeddings"] = m.tied;
  write_rotary(a.rotary, c);
}

ModelOptions llama_options(const Json& c, std::vector<std::string>&) {
  only(c, "attention_bias", false, false);
  only(c, "mlp_bias", false, false);
  return llama_like(c, 10000);
}
void write_llama(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "llama", RowKind::ffn);
  if (first_of(m, RowKind::attention, "llama").attention.qkv_bias) not_of("llama", "queries, keys and values have biases");
}

void note_window(const Json& c, std::vector<std::string>& notices) {
  if (has(c, "sliding_window"))
    notices.push_back(fmt::format("sliding_window {} passes through; training and scoring here attend to everything before",
                                  json_line(c["sliding_window"])));
}

ModelOptions mistral_options(const Json& c, std::vector<std::string>& notices) {
  note_window(c, notices);
  return llama_like(c, 10000);
}
void write_mistral(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "mistral", RowKind::ffn);
  if (first_of(m, RowKind::attention, "mistral").attention.qkv_bias) not_of("mistral", "queries, keys and values have biases");
}

ModelOptions qwen2_options(const Json& c, std::vector<std::string>& notices) {
  if (get<bool>(c, "use_sliding_window", false)) note_window(c, notices);
  ModelOptions o = llama_like(c, 10000);
  o.add_qkv_bias = true;
  return o;
}
void write_qwen2(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "qwen2", RowKind::ffn);
  if (!first_of(m, RowKind::attention, "qwen2").attention.qkv_bias) not_of("qwen2", "queries, keys and values have no biases");
}

ModelOptions mixtral_options(const Json& c, std::vector<std::string>& notices) {
  note_window(c, notices);
  ModelOptions o = llama_like(c, 1e6);
  o.num_experts = whole_number(c, "num_local_experts", 8);
  o.moe_router_topk = whole_number(c, "num_experts_per_tok", 2);
  o.moe_ffn_hidden_size = o.ffn_hidden_size;
  return o;
}
void write_mixtral(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "mixtral", RowKind::moe);
  const Row& row = first_of(m, RowKind::moe, "mixtral");
  if (first_of(m, RowKind::attention, "mixtral").attention.qkv_bias) not_of("mixtral", "queries, keys and values have biases");
  if (row.moe.shared_hidden > 0) not_of("mixtral", "there is a shared expert");
  for (const auto& r : m.decoder().rows)
    if (r.kind == RowKind::ffn) not_of("mixtral", "some layers have no experts");
  c["num_local_experts"] = row.moe.experts;
  c["num_experts_per_tok"] = row.moe.topk;
}

// ---- GPT-2 --------------------------------------------------------------------------------------------------------

ModelOptions gpt2_options(const Json& c, std::vector<std::string>&) {
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
  const auto act = get<std::string>(c, "activation_function", "gelu_new");
  if (act != "gelu_new" && act != "gelu_pytorch_tanh")
    throw Error(Code::config, "activation_function " + act + " is not represented, only gelu_new");
  return o;
}
void write_gpt2(const ModelSpec& m, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, "gpt2");
  const Row& ffn = first_of(m, RowKind::ffn, "gpt2");
  const AttentionSpec& a = attention.attention;
  if (!m.learned_positions || a.rotary.on) not_of("gpt2", "positions are not learned");
  if (attention.norm.kind != NormKind::layer_norm) not_of("gpt2", "norms are not LayerNorm");
  if (a.heads != a.kv_heads || a.heads * a.head_dim != m.hidden) not_of("gpt2", "heads share keys, or are not hidden/heads wide");
  if (!a.qkv_bias || !a.proj_bias || !ffn.ffn.bias) not_of("gpt2", "linear layers have no biases");
  if (ffn.ffn.gated || ffn.ffn.activation != Activation::gelu_tanh) not_of("gpt2", "the activation is not GELU by tanh");
  c["n_embd"] = m.hidden;
  c["n_layer"] = m.num_layers();
  c["n_head"] = a.heads;
  c["n_positions"] = m.max_positions;
  if (has(c, "n_inner") || ffn.ffn.ffn_hidden != 4 * m.hidden) c["n_inner"] = ffn.ffn.ffn_hidden;
  c["layer_norm_epsilon"] = attention.norm.eps;
  if (!has(c, "activation_function")) c["activation_function"] = "gelu_new";
  if (has(c, "tie_word_embeddings") || !m.tied) c["tie_word_embeddings"] = m.tied;
}

// ---- names ----------------------------------------------------------------------------------------------------------

#define MT_LLAMA_ATTENTION                                                                                              \
  {"model.embed_tokens.weight", "embedding.word_embeddings.weight"},                                                   \
  {"model.layers.{L}.input_layernorm.weight", "decoder.layers.{L}.input_layernorm.weight"},                            \
  {"model.layers.{L}.self_attn.q_proj.weight", "decoder.layers.{L}.self_attention.linear_q.weight"},                   \
  {"model.layers.{L}.self_attn.k_proj.weight", "decoder.layers.{L}.self_attention.linear_k.weight"},                   \
  {"model.layers.{L}.self_attn.v_proj.weight", "decoder.layers.{L}.self_attention.linear_v.weight"},                   \
  {"model.layers.{L}.self_attn.q_proj.bias", "decoder.layers.{L}.self_attention.linear_q.bias"},                       \
  {"model.layers.{L}.self_attn.k_proj.bias", "decoder.layers.{L}.self_attention.linear_k.bias"},                       \
  {"model.layers.{L}.self_attn.v_proj.bias", "decoder.layers.{L}.self_attention.linear_v.bias"},                       \
  {"model.layers.{L}.self_attn.o_proj.weight", "decoder.layers.{L}.self_attention.linear_proj.weight"},                \
  {"model.layers.{L}.post_attention_layernorm.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"}
#define MT_LLAMA_HEAD                                                  \
  {"model.norm.weight", "decoder.final_layernorm.weight"}, {"lm_head.weight", "output_layer.weight"}

constexpr HfName kLlamaNames[] = {
    MT_LLAMA_ATTENTION,
    {"model.layers.{L}.mlp.gate_proj.weight", "decoder.layers.{L}.mlp.linear_fc1_gate.weight"},
    {"model.layers.{L}.mlp.up_proj.weight", "decoder.layers.{L}.mlp.linear_fc1_up.weight"},
    {"model.layers.{L}.mlp.down_proj.weight", "decoder.layers.{L}.mlp.linear_fc2.weight"},
    MT_LLAMA_HEAD};

constexpr HfName kMixtralNames[] = {
    MT_LLAMA_ATTENTION,
    {"model.layers.{L}.block_sparse_moe.gate.weight", "decoder.layers.{L}.mlp.router.weight"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight", "decoder.layers.{L}.mlp.experts.linear_fc1_gate.weight"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight", "decoder.layers.{L}.mlp.experts.linear_fc2.weight"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight", "decoder.layers.{L}.mlp.experts.linear_fc1_up.weight"},
    MT_LLAMA_HEAD};

#undef MT_LLAMA_ATTENTION
#undef MT_LLAMA_HEAD

constexpr HfName kGpt2Names[] = {
    {"transformer.wte.weight", "embedding.word_embeddings.weight"},
    {"transformer.wpe.weight", "embedding.position_embeddings.weight"},
    {"transformer.h.{L}.ln_1.weight", "decoder.layers.{L}.input_layernorm.weight"},
    {"transformer.h.{L}.ln_1.bias", "decoder.layers.{L}.input_layernorm.bias"},
    {"transformer.h.{L}.attn.c_attn.weight",
     "decoder.layers.{L}.self_attention.linear_q.weight decoder.layers.{L}.self_attention.linear_k.weight "
     "decoder.layers.{L}.self_attention.linear_v.weight", true},
    {"transformer.h.{L}.attn.c_attn.bias",
     "decoder.layers.{L}.self_attention.linear_q.bias decoder.layers.{L}.self_attention.linear_k.bias "
     "decoder.layers.{L}.self_attention.linear_v.bias"},
    {"transformer.h.{L}.attn.c_proj.weight", "decoder.layers.{L}.self_attention.linear_proj.weight", true},
    {"transformer.h.{L}.attn.c_proj.bias", "decoder.layers.{L}.self_attention.linear_proj.bias"},
    {"transformer.h.{L}.ln_2.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"},
    {"transformer.h.{L}.ln_2.bias", "decoder.layers.{L}.pre_mlp_layernorm.bias"},
    {"transformer.h.{L}.mlp.c_fc.weight", "decoder.layers.{L}.mlp.linear_fc1.weight", true},
    {"transformer.h.{L}.mlp.c_fc.bias", "decoder.layers.{L}.mlp.linear_fc1.bias"},
    {"transformer.h.{L}.mlp.c_proj.weight", "decoder.layers.{L}.mlp.linear_fc2.weight", true},
    {"transformer.h.{L}.mlp.c_proj.bias", "decoder.layers.{L}.mlp.linear_fc2.bias"},
    {"transformer.ln_f.weight", "decoder.final_layernorm.weight"},
    {"transformer.ln_f.bias", "decoder.final_layernorm.bias"},
    {"lm_head.weight", "output_layer.weight"}};

constexpr const char* kLlamaIgnored[] = {".rotary_emb.inv_freq"};
constexpr const char* kGpt2Ignored[] = {".attn.bias", ".attn.masked_bias"};

const HfFamily kFamilies[] = {
    {"llama", "LlamaForCausalLM", "model.", kLlamaNames, kLlamaIgnored, llama_options, write_llama},
    {"mistral", "MistralForCausalLM", "model.", kLlamaNames, kLlamaIgnored, mistral_options, write_mistral},
    {"qwen2", "Qwen2ForCausalLM", "model.", kLlamaNames, kLlamaIgnored, qwen2_options, write_qwen2},
    {"mixtral", "MixtralForCausalLM", "model.", kMixtralNames, kLlamaIgnored, mixtral_options, write_mixtral},
    {"gpt2", "GPT2LMHeadModel", "transformer.", kGpt2Names, kGpt2Ignored, gpt2_options, write_gpt2},
};

}  // namespace

std::span<const HfFamily> hf_families() { return kFamilies; }

}  // namespace mt
