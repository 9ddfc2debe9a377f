#include "foreign/megatron_args.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "foreign/model_words.h"

namespace mt {

namespace {

bool has(const Json& a, const char* key) { return a.contains(key) && !a[key].is_null(); }

class Args {
 public:
  Args(const Json& args, const std::string& where) : args_(args), where_(where) {}

  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const { throw Error(Code::config, what, where_, hint); }
  bool has(const char* key) const { return mt::has(args_, key); }
  template <class T>
  T get(const char* key, const T& otherwise) const {
    if (!has(key)) return otherwise;
    try {
      return json_field<T>(args_, key, where_);
    } catch (const Error&) {
      fail(fmt::format("args.{} is {}", key, json_line(args_[key]).substr(0, 80)));
    }
  }
  std::int64_t count(const char* key, std::int64_t otherwise) const {
    const auto n = get<std::int64_t>(key, otherwise);
    if (n < 0 || n > (1 << 28)) fail(fmt::format("args.{} is {}", key, n));
    return n;
  }
  int at_least_one(const char* key) const {
    const auto n = count(key, 1);
    if (n < 1) fail(fmt::format("args.{} is {}", key, n));
    return static_cast<int>(n);
  }
  int whole(const char* key, int otherwise) const { return static_cast<int>(count(key, otherwise)); }
  // What changes the maths, at the only value that is computed here.
  void off(const char* key) const {
    if (!has(key)) return;
    const Json& v = args_[key];
    if (v == Json(false) || v == Json(0) || v == Json("") || v == Json::array()) return;
    fail(fmt::format("args.{} is {}, which is not represented", key, json_line(v).substr(0, 80)));
  }

 private:
  const Json& args_;
  const std::string& where_;
};

constexpr std::array<const char*, 20> kOff = {
    "multi_latent_attention", "qk_l2_norm", "attention_output_gate", "apply_layernorm_1p",
    "apply_residual_connection_post_layernorm", "quick_geglu", "geglu", "glu_linear_offset", "activation_func_clamp_value", "mtp_num_layers",
    "hybrid_layer_pattern", "hybrid_override_pattern", "heterogeneous_layers_config_path", "use_mup", "num_moe_experts_per_layer",
    "moe_shared_expert_gate", "moe_router_enable_expert_bias", "no_rope_freq", "moe_latent_size", "rotary_seq_len_interpolation_factor"};

void read_positions(const Args& a, ModelOptions& o) {
  o.position_embedding_type = a.get<std::string>("position_embedding_type", "learned_absolute");
  if (a.get<bool>("use_rotary_position_embeddings", false)) o.position_embedding_type = "rope";
  if (!a.get<bool>("add_position_embedding", true) && o.position_embedding_type == "learned_absolute") o.position_embedding_type = "none";
  const auto& type = o.position_embedding_type;
  if (type != "learned_absolute" && type != "rope" && type != "none") a.fail("args.position_embedding_type is " + type + ", which is not represented");
  o.rotary_base = a.get<double>("rotary_base", 10000);
  o.rotary_percent = a.get<double>("rotary_percent", 1.0);
  o.rotary_interleaved = a.get<bool>("rotary_interleaved", false);
  o.use_rope_scaling = a.get<bool>("use_rope_scaling", false);
  o.rope_scaling_factor = a.get<double>("rope_scaling_factor", 8.0);
}

void read_experts(const Args& a, const Json& args, ModelOptions& o, std::vector<std::string>& notices) {
  o.num_experts = a.whole("num_experts", 0);
  if (o.num_experts == 0) return;
  if (a.has("moe_layer_freq")) {
    const Json& f = args["moe_layer_freq"];
    o.moe_layer_freq = f.is_string() ? f.get<std::string>() : json_line(f);
  }
  if (a.has("moe_ffn_hidden_size")) o.moe_ffn_hidden_size = a.whole("moe_ffn_hidden_size", 0);
  o.moe_router_topk = a.whole("moe_router_topk", 2);
  o.moe_shared_expert_intermediate_size = a.whole("moe_shared_expert_intermediate_size", 0);
  for (const char* key : {"moe_router_score_function", "moe_router_topk_scaling_factor", "moe_router_num_groups"})
    if (a.has(key) && args[key] != Json("softmax"))
      notices.push_back(fmt::format("args.{} {} passes through and is not computed here", key, json_line(args[key])));
}

ModelOptions options_of(const Args& a, const Json& args, std::vector<std::string>& notices) {
  ModelOptions o;
  o.num_layers = a.at_least_one("num_layers");
  o.hidden_size = a.at_least_one("hidden_size");
  o.num_attention_heads = a.at_least_one("num_attention_heads");
  o.max_position_embeddings = a.at_least_one("max_position_embeddings");
  if (a.has("ffn_hidden_size")) o.ffn_hidden_size = a.at_least_one("ffn_hidden_size");
  if (a.has("kv_channels")) o.kv_channels = a.at_least_one("kv_channels");
  o.group_query_attention = a.get<bool>("group_query_attention", false);
  if (o.group_query_attention) o.num_query_groups = a.at_least_one("num_query_groups");
  read_positions(a, o);
  o.normalization = a.get<std::string>("normalization", "LayerNorm");
  if (o.normalization != "LayerNorm" && o.normalization != "RMSNorm") a.fail("args.normalization is " + o.normalization);
  o.qk_layernorm = a.get<bool>("qk_layernorm", false);
  if (o.qk_layernorm && o.normalization != "RMSNorm") a.fail("args.qk_layernorm with normalization " + o.normalization + " is not represented, only with RMSNorm");
  o.norm_epsilon = a.get<double>("norm_epsilon", a.get<double>("layernorm_epsilon", 1e-5));
  o.swiglu = a.get<bool>("swiglu", false);
  o.squared_relu = a.get<bool>("squared_relu", false);
  o.openai_gelu = a.get<bool>("openai_gelu", false);
  o.bias_gelu_fusion = a.get<bool>("bias_gelu_fusion", true);
  o.add_bias_linear = a.get<bool>("add_bias_linear", true);
  o.add_qkv_bias = a.get<bool>("add_qkv_bias", false);
  read_experts(a, args, o, notices);
  o.untie_embeddings_and_output_weights = a.get<bool>("untie_embeddings_and_output_weights", false);
  o.make_vocab_size_divisible_by = a.whole("make_vocab_size_divisible_by", 128);
  o.attention_dropout = a.get<double>("attention_dropout", 0.1);
  o.hidden_dropout = a.get<double>("hidden_dropout", 0.1);
  o.init_method_std = a.get<double>("init_method_std", 0.02);
  o.fp32_residual_connection = a.get<bool>("fp32_residual_connection", false);
  return o;
}

// The one row of a kind, or none.   fails  Error{config}: several shapes
const Row* only_row(const ModelSpec& m, RowKind kind, const std::string& where) {
  const Row* first = nullptr;
  for (const auto& r : m.decoder().rows) {
    if (r.kind != kind) continue;
    if (first == nullptr) first = &r;
    ModelSpec a = m, b = m;
    a.towers[0].rows = {*first};
    b.towers[0].rows = {r};
    b.towers[0].rows[0].layer = first->layer;
    if (const auto d = model_difference(a, b); !d.empty()) throw Error(Code::config, "layers of several shapes: " + difference_in_words(d, a), where);
  }
  return first;
}

void write_attention(const Row& row, Json& a) {
  const AttentionSpec& s = row.attention;
  a["num_attention_heads"] = s.heads;
  a["group_query_attention"] = s.kv_heads != s.heads;
  a["num_query_groups"] = s.kv_heads == s.heads ? 1 : s.kv_heads;
  a["kv_channels"] = s.head_dim;
  a["add_qkv_bias"] = s.qkv_bias && !s.proj_bias;
  a["qk_layernorm"] = s.qk_norm;
  a["rotary_base"] = s.rotary.base;
  a["rotary_percent"] = s.rotary.percent;
  a["rotary_interleaved"] = s.rotary.interleaved;
  a["use_rope_scaling"] = s.rotary.scaling_factor > 0;
  if (s.rotary.scaling_factor > 0) a["rope_scaling_factor"] = s.rotary.scaling_factor;
}

void write_experts(const ModelSpec& m, const Row* moe, Json& a) {
  if (moe == nullptr) {
    a["num_experts"] = nullptr;
    return;
  }
  a["num_experts"] = moe->moe.experts;
  a["moe_ffn_hidden_size"] = moe->ffn.ffn_hidden;
  a["moe_router_topk"] = moe->moe.topk;
  a["moe_shared_expert_intermediate_size"] = moe->moe.shared_hidden > 0 ? Json(moe->moe.shared_hidden) : Json();
  Json freq = Json::array();
  for (const auto& r : m.decoder().rows)
    if (r.kind == RowKind::moe || r.kind == RowKind::ffn) freq.push_back(r.kind == RowKind::moe ? 1 : 0);
  const bool all = std::all_of(freq.begin(), freq.end(), [](const Json& f) { return f == Json(1); });
  a["moe_layer_freq"] = all ? Json(1) : freq;
}

}  // namespace

MegatronModel model_of_megatron(const Json& args, std::optional<std::int64_t> vocab_size, const std::string& where) {
  const Args a(args, where);
  std::string missing;
  for (const char* key : {"num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings", "padded_vocab_size"})
    if (!a.has(key)) missing += (missing.empty() ? "" : ", ") + std::string(key);
  if (!missing.empty()) a.fail("its args do not say " + missing, "the model cannot be known from the weights alone");
  for (const char* key : kOff) a.off(key);
  MegatronModel m;
  m.padded_vocab = a.count("padded_vocab_size", 0);
  std::int64_t vocab = m.padded_vocab;
  if (vocab_size && a.has("vocab_size") && a.count("vocab_size", 0) != *vocab_size)
    a.fail(fmt::format("its args say a vocabulary of {}, --vocab-size {}, which is for args that do not say it", a.count("vocab_size", 0), *vocab_size));
  if (vocab_size) vocab = *vocab_size;
  else if (a.has("vocab_size")) vocab = a.count("vocab_size", 0);
  else m.notices.push_back(fmt::format("its args do not say the vocabulary without padding: all {} rows are taken; --vocab-size says how many are true", vocab));
  if (vocab < 1 || vocab > m.padded_vocab) a.fail(fmt::format("a vocabulary of {} in tables of {} rows", vocab, m.padded_vocab));
  m.spec = build_model(options_of(a, args, m.notices), vocab);
  return m;
}

Json megatron_args_of(const ModelSpec& m, std::int64_t padded_vocab, Json base, const std::string& where) {
  const Row* attention = only_row(m, RowKind::attention, where);
  const Row *dense = only_row(m, RowKind::ffn, where), *moe = only_row(m, RowKind::moe, where);
  const Row* network = dense != nullptr ? dense : moe;
  if (attention == nullptr || network == nullptr) throw Error(Code::config, "a model without attention or without feed-forward networks", where);
  if (dense != nullptr && moe != nullptr && (dense->ffn.activation != moe->ffn.activation || dense->ffn.gated != moe->ffn.gated))
    throw Error(Code::config, "experts compute otherwise than dense layers", where);
  Json a = std::move(base);
  a["num_layers"] = m.num_layers();
  a["hidden_size"] = m.hidden;
  a["ffn_hidden_size"] = network->ffn.ffn_hidden;
  write_attention(*attention, a);
  a["max_position_embeddings"] = m.max_positions;
  a["position_embedding_type"] = attention->attention.rotary.on ? "rope" : m.learned_positions ? "learned_absolute" : "none";
  a["add_position_embedding"] = true;
  a["normalization"] = attention->norm.kind == NormKind::rms_norm ? "RMSNorm" : "LayerNorm";
  a["norm_epsilon"] = attention->norm.eps;
  const FfnSpec& f = network->ffn;
  a["swiglu"] = f.gated && f.activation == Activation::silu;
  a["squared_relu"] = f.activation == Activation::squared_relu;
  a["openai_gelu"] = f.activation == Activation::gelu_tanh;
  a["bias_gelu_fusion"] = f.activation == Activation::gelu_tanh;
  a["add_bias_linear"] = attention->attention.proj_bias;
  write_experts(m, moe, a);
  a["untie_embeddings_and_output_weights"] = !m.tied;
  a["make_vocab_size_divisible_by"] = m.vocab_divisor;
  a["vocab_size"] = m.vocab_size;
  a["padded_vocab_size"] = padded_vocab;
  a["attention_dropout"] = attention->attention.dropout;
  a["hidden_dropout"] = attention->residual_dropout;
  a["init_method_std"] = m.init_std;
  a["fp32_residual_connection"] = m.fp32_residual;
  std::string difference;
  try {
    difference = difference_in_words(model_difference(model_of_megatron(a, std::nullopt, where).spec, m), m);
  } catch (const Error& e) {
    difference = e.message();
  }
  if (!difference.empty()) throw Error(Code::config, "Megatron's arguments do not say this model: " + difference, where);
  return a;
}

}  // namespace mt
