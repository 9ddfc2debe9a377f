#include "foreign/hf_config.h"

#include <cmath>

namespace mt::hf {

bool has(const Json& c, const char* key) { return c.contains(key) && !c[key].is_null(); }

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

std::int64_t vocab_size(const Json& c) { return whole_number(c, "vocab_size"); }

void not_of(const char* family, const std::string& why) {
  throw Error(Code::config, fmt::format("the model is none of {}: {}", family, why));
}

const Row& first_of(const ModelSpec& m, RowKind kind, const char* family) {
  for (const auto& r : m.decoder().rows)
    if (r.kind == kind) return r;
  not_of(family, kind == RowKind::attention ? "no attention" : kind == RowKind::moe ? "no experts" : "no feed-forward network");
}

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

void write_rotary(const RotarySpec& r, Json& c) {
  if (has(c, "rope_parameters")) put(c["rope_parameters"], "rope_theta", r.base);
  else put(c, "rope_theta", r.base);
  if (r.scaling_factor <= 0) {
    const char* key = has(c, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    if (!has(c, key)) return;
    const auto type = get<std::string>(c[key], "rope_type", get<std::string>(c[key], "type", "default"));
    if (type == "default") return;
    if (key == std::string("rope_scaling")) c[key] = nullptr;
    else c[key] = {{"rope_type", "default"}, {"rope_theta", r.base}};
    return;
  }
  Json& scaling = has(c, "rope_parameters") ? c["rope_parameters"] : c["rope_scaling"];
  if (!has(c, "rope_parameters") && scaling.is_null())
    scaling = {{"rope_type", "llama3"}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  put(scaling, "factor", r.scaling_factor);
}

ModelOptions llama_like(const Json& c, double base) {
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
  read_rotary(c, o, base);
  return o;
}

void write_llama_like(const ModelSpec& m, Json& c, const char* family, RowKind network) {
  const Row& attention = first_of(m, RowKind::attention, family);
  const Row& ffn = first_of(m, network, family);
  const AttentionSpec& a = attention.attention;
  if (m.learned_positions || !a.rotary.on || a.rotary.percent != 1.0 || a.rotary.interleaved) not_of(family, "positions are not rotary over whole heads");
  if (attention.norm.kind != NormKind::rms_norm) not_of(family, "norms are not RMSNorm");
  if (a.proj_bias || ffn.ffn.bias) not_of(family, "linear layers have biases");
  if (!ffn.ffn.gated || ffn.ffn.activation != Activation::silu) not_of(family, "the activation is not gated SiLU");
  put(c, "hidden_size", m.hidden);
  put(c, "num_hidden_layers", m.num_layers());
  put(c, "intermediate_size", ffn.ffn.ffn_hidden);
  put(c, "num_attention_heads", a.heads);
  put(c, "num_key_value_heads", a.kv_heads);
  if (has(c, "head_dim") || a.heads * a.head_dim != m.hidden) put(c, "head_dim", a.head_dim);
  put(c, "max_position_embeddings", m.max_positions);
  put(c, "rms_norm_eps", attention.norm.eps);
  put(c, "hidden_act", "silu");
  put(c, "tie_word_embeddings", m.tied);
  write_rotary(a.rotary, c);
}

void note_window(const Json& c, std::vector<std::string>& notices) {
  if (has(c, "sliding_window"))
    notices.push_back(fmt::format("sliding_window {} passes through; training and scoring here attend to everything before",
                                  json_line(c["sliding_window"])));
}

}  // namespace mt::hf
