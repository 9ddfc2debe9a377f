// The model's JSON. What a model of earlier versions could not have is written only where it is there.

#include <set>

#include "base/error.h"
#include "layout/model_spec.h"

namespace mt {

namespace {

constexpr const char* kNorms[] = {"LayerNorm", "RMSNorm", "none"};
constexpr const char* kActivations[] = {"gelu_tanh", "gelu_erf", "silu", "squared_relu", "relu"};
constexpr const char* kRows[] = {"none", "attention", "ffn", "moe", "cross_attention"};

template <class E, std::size_t N>
E parse_enum(const char* const (&names)[N], const std::string& text, const std::string& where) {
  for (std::size_t i = 0; i < N; ++i)
    if (text == names[i]) return static_cast<E>(i);
  throw Error(Code::corrupt, fmt::format("unknown name '{}'", text), where);
}

// A field that is left out at its usual value.
template <class T>
void put(Json& j, const char* key, const T& value, const T& usual = T{}) {
  if (value != usual) j[key] = value;
}
template <class T>
void take(const Json& j, const char* key, T& value, const std::string& where) {
  if (j.contains(key)) value = json_field<T>(j, key, where);
}

Json norm_json(const NormSpec& n) { return {{"kind", kNorms[static_cast<int>(n.kind)]}, {"eps", n.eps}}; }

NormSpec norm_from(const Json& j, const std::string& where) {
  return {parse_enum<NormKind>(kNorms, json_field<std::string>(j, "kind", where), where),
          json_field<double>(j, "eps", where)};
}

Json attention_json(const AttentionSpec& a) {
  Json j{{"heads", a.heads},         {"kv_heads", a.kv_heads},   {"head_dim", a.head_dim},
         {"qkv_bias", a.qkv_bias}, {"proj_bias", a.proj_bias}, {"attention_dropout", a.dropout}};
  if (a.rotary.on)
    j["rotary"] = {{"base", a.rotary.base},
                   {"percent", a.rotary.percent},
                   {"interleaved", a.rotary.interleaved},
                   {"scaling_factor", a.rotary.scaling_factor}};
  put(j, "qk_norm", a.qk_norm);
  put(j, "causal", a.causal, true);
  put(j, "alibi", a.alibi);
  put(j, "scale", a.scale);
  if (a.relative.buckets > 0) j["relative"] = {{"buckets", a.relative.buckets}, {"distance", a.relative.distance}};
  if (const auto& l = a.latent; l.on())
    j["latent"] = {{"kv_rank", l.kv_rank}, {"q_rank", l.q_rank}, {"nope", l.nope}, {"rope", l.rope}, {"value", l.value}};
  return j;
}

Json moe_json(const MoeSpec& m) {
  Json j{{"experts", m.experts}, {"topk", m.topk}, {"shared_hidden", m.shared_hidden}};
  put(j, "sigmoid", m.sigmoid);
  put(j, "normalized", m.normalized, true);
  put(j, "expert_bias", m.expert_bias);
  put(j, "groups", m.groups);
  put(j, "topk_groups", m.topk_groups);
  put(j, "scale", m.scale, 1.0);
  return j;
}

bool is_attention(RowKind kind) { return kind == RowKind::attention || kind == RowKind::cross_attention; }
bool is_network(RowKind kind) { return kind == RowKind::ffn || kind == RowKind::moe; }

Json row_json(const Row& r) {
  Json j{{"kind", kRows[static_cast<int>(r.kind)]}, {"layer", r.layer}, {"norm", norm_json(r.norm)},
         {"residual_dropout", r.residual_dropout}};
  if (is_attention(r.kind)) j.update(attention_json(r.attention));
  if (is_network(r.kind))
    j.update(Json{{"ffn_hidden", r.ffn.ffn_hidden},
                  {"activation", kActivations[static_cast<int>(r.ffn.activation)]},
                  {"gated", r.ffn.gated},
                  {"bias", r.ffn.bias}});
  if (r.kind == RowKind::moe) j["moe"] = moe_json(r.moe);
  put(j, "parallel", r.parallel);
  put(j, "post_norm", r.post_norm);
  return j;
}

Json array_field(const Json& j, const char* key, const std::string& where) {
  Json a = json_field<Json>(j, key, where);
  if (!a.is_array()) throw Error(Code::corrupt, fmt::format("field '{}': wanted an array, found {}", key, a.type_name()), where);
  return a;
}

AttentionSpec attention_from(const Json& j, const std::string& where) {
  AttentionSpec a;
  a.heads = json_field<int>(j, "heads", where);
  a.kv_heads = json_field<int>(j, "kv_heads", where);
  a.head_dim = json_field<int>(j, "head_dim", where);
  if (a.heads < 1 || a.kv_heads < 1 || a.head_dim < 1)
    throw Error(Code::corrupt, fmt::format("heads {}, kv_heads {}, head_dim {}: all are at least 1", a.heads, a.kv_heads, a.head_dim), where);
  a.qkv_bias = json_field<bool>(j, "qkv_bias", where);
  a.proj_bias = json_field<bool>(j, "proj_bias", where);
  a.dropout = json_field<double>(j, "attention_dropout", where);
  if (j.contains("rotary")) {
    const Json rotary = json_field<Json>(j, "rotary", where);
    const std::string in = where + ", rotary";
    a.rotary = {true, json_field<double>(rotary, "base", in), json_field<double>(rotary, "percent", in),
                json_field<bool>(rotary, "interleaved", in), json_field<double>(rotary, "scaling_factor", in)};
  }
  take(j, "qk_norm", a.qk_norm, where);
  take(j, "causal", a.causal, where);
  take(j, "alibi", a.alibi, where);
  take(j, "scale", a.scale, where);
  if (j.contains("relative")) {
    const Json relative = json_field<Json>(j, "relative", where);
    const std::string in = where + ", relative";
    a.relative = {json_field<int>(relative, "buckets", in), json_field<int>(relative, "distance", in)};
  }
  if (j.contains("latent")) {
    const Json latent = json_field<Json>(j, "latent", where);
    const std::string in = where + ", latent";
    a.latent = {json_field<int>(latent, "kv_rank", in), json_field<int>(latent, "q_rank", in), json_field<int>(latent, "nope", in),
                json_field<int>(latent, "rope", in), json_field<int>(latent, "value", in)};
  }
  return a;
}

MoeSpec moe_from(const Json& j, const std::string& where) {
  MoeSpec m;
  m.experts = json_field<int>(j, "experts", where);
  m.topk = json_field<int>(j, "topk", where);
  m.shared_hidden = json_field<int>(j, "shared_hidden", where);
  take(j, "sigmoid", m.sigmoid, where);
  take(j, "normalized", m.normalized, where);
  take(j, "expert_bias", m.expert_bias, where);
  take(j, "groups", m.groups, where);
  take(j, "topk_groups", m.topk_groups, where);
  take(j, "scale", m.scale, where);
  return m;
}

Row row_from(const Json& j, const std::string& where) {
  Row r;
  r.kind = parse_enum<RowKind>(kRows, json_field<std::string>(j, "kind", where), where);
  r.layer = json_field<int>(j, "layer", where);
  r.norm = norm_from(json_field<Json>(j, "norm", where), where + ", norm");
  r.residual_dropout = json_field<double>(j, "residual_dropout", where);
  if (is_attention(r.kind)) r.attention = attention_from(j, where);
  if (is_network(r.kind)) {
    r.ffn.ffn_hidden = json_field<int>(j, "ffn_hidden", where);
    r.ffn.activation = parse_enum<Activation>(kActivations, json_field<std::string>(j, "activation", where), where);
    r.ffn.gated = json_field<bool>(j, "gated", where);
    r.ffn.bias = json_field<bool>(j, "bias", where);
  }
  if (r.kind == RowKind::moe) r.moe = moe_from(json_field<Json>(j, "moe", where), where + ", moe");
  take(j, "parallel", r.parallel, where);
  take(j, "post_norm", r.post_norm, where);
  return r;
}

}  // namespace

Json to_json(const ModelSpec& m) {
  Json towers = Json::array();
  for (const auto& t : m.towers) {
    Json rows = Json::array();
    for (const auto& r : t.rows) rows.push_back(row_json(r));
    towers.push_back({{"name", t.name}, {"rows", rows}});
  }
  Json j{{"family", m.family},
          {"hidden", m.hidden},
          {"vocab_size", m.vocab_size},
          {"vocab_divisor", m.vocab_divisor},
          {"max_positions", m.max_positions},
          {"learned_positions", m.learned_positions},
          {"embedding_dropout", m.embedding_dropout},
          {"tied", m.tied},
          {"final_norm", norm_json(m.final_norm)},
          {"init_std", m.init_std},
          {"embedding_init_std", m.embedding_init_std},
          {"output_init_std", m.output_init_std},
          {"towers", towers}};
  put(j, "fp32_residual", m.fp32_residual);
  if (m.embedding_norm.kind != NormKind::none) j["embedding_norm"] = norm_json(m.embedding_norm);
  put(j, "token_types", m.token_types);
  put(j, "masked_head", m.masked_head);
  put(j, "pooler", m.pooler);
  put(j, "output_scale", m.output_scale, 1.0);
  put(j, "mtp_layers", m.mtp_layers);
  return j;
}

namespace {

// The first unequal value of two JSON trees, with its path.
std::string first_difference(const Json& a, const Json& b, const std::string& path) {
  static const std::set<std::string> ignored = {"vocab_divisor", "embedding_dropout",  "attention_dropout",
                                                "init_std",      "embedding_init_std", "output_init_std",
                                                "residual_dropout"};
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      if (ignored.count(key) > 0) continue;
      const auto other = b.find(key);
      const std::string here = path.empty() ? key : path + "." + key;
      const std::string d = other == b.end() ? here + ": only in one" : first_difference(value, *other, here);
      if (!d.empty()) return d;
    }
    for (const auto& [key, value] : b.items())
      if (!a.contains(key) && ignored.count(key) == 0) return (path.empty() ? key : path + "." + key) + ": only in one";
    return "";
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (const auto d = first_difference(a[i], b[i], fmt::format("{}[{}]", path, i)); !d.empty()) return d;
    return "";
  }
  return a == b ? "" : fmt::format("{}: {} and {}", path, a.dump(), b.dump());
}

}  // namespace

std::string model_difference(const ModelSpec& a, const ModelSpec& b) {
  return first_difference(to_json(a), to_json(b), "");
}

ModelSpec model_from_json(const Json& j, const std::string& where) {
  ModelSpec m;
  m.family = json_field<std::string>(j, "family", where);
  m.hidden = json_field<int>(j, "hidden", where);
  m.vocab_size = json_field<std::int64_t>(j, "vocab_size", where);
  m.vocab_divisor = json_field<int>(j, "vocab_divisor", where);
  m.max_positions = json_field<int>(j, "max_positions", where);
  m.learned_positions = json_field<bool>(j, "learned_positions", where);
  m.embedding_dropout = json_field<double>(j, "embedding_dropout", where);
  m.tied = json_field<bool>(j, "tied", where);
  take(j, "fp32_residual", m.fp32_residual, where);
  if (j.contains("embedding_norm"))
    m.embedding_norm = norm_from(json_field<Json>(j, "embedding_norm", where), where + ", embedding_norm");
  take(j, "token_types", m.token_types, where);
  take(j, "masked_head", m.masked_head, where);
  take(j, "pooler", m.pooler, where);
  take(j, "output_scale", m.output_scale, where);
  take(j, "mtp_layers", m.mtp_layers, where);
  m.final_norm = norm_from(json_field<Json>(j, "final_norm", where), where + ", final_norm");
  m.init_std = json_field<double>(j, "init_std", where);
  m.embedding_init_std = json_field<double>(j, "embedding_init_std", where);
  m.output_init_std = json_field<double>(j, "output_init_std", where);
  for (const auto& tj : array_field(j, "towers", where)) {
    Tower t;
    t.name = json_field<std::string>(tj, "name", where);
    for (const auto& rj : array_field(tj, "rows", where)) t.rows.push_back(row_from(rj, where));
    m.towers.push_back(std::move(t));
  }
  if (m.towers.empty()) throw Error(Code::corrupt, "a model without towers", where);
  return m;
}

}  // namespace mt
