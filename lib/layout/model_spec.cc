#include "layout/model_spec.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "layout/param_spec.h"

namespace mt {

int ModelSpec::num_layers() const {
  int n = 0;
  for (const auto& row : decoder().rows) n = std::max(n, row.layer + 1);
  return n;
}

namespace {

int default_ffn(const ModelOptions& o) {
  if (o.ffn_hidden_size) return *o.ffn_hidden_size;
  return o.swiglu ? static_cast<int>(std::int64_t{o.hidden_size} * 8 / 3 / 64 * 64) : 4 * o.hidden_size;
}

Activation activation_of(const ModelOptions& o) {
  if (o.swiglu) return Activation::silu;
  if (o.squared_relu) return Activation::squared_relu;
  return o.openai_gelu || (o.bias_gelu_fusion && o.add_bias_linear) ? Activation::gelu_tanh : Activation::gelu_erf;
}

AttentionSpec attention_of(const ModelOptions& o) {
  AttentionSpec a;
  a.heads = o.num_attention_heads;
  a.kv_heads = o.group_query_attention ? o.num_query_groups : o.num_attention_heads;
  a.head_dim = o.kv_channels.value_or(o.num_attention_heads > 0 ? o.hidden_size / o.num_attention_heads : 0);
  a.rotary.on = o.position_embedding_type == "rope";
  a.rotary.base = o.rotary_base;
  a.rotary.percent = o.rotary_percent;
  a.rotary.interleaved = o.rotary_interleaved;
  a.rotary.scaling_factor = o.use_rope_scaling ? o.rope_scaling_factor : 0;
  a.qkv_bias = o.add_bias_linear || o.add_qkv_bias;
  a.proj_bias = o.add_bias_linear;
  a.dropout = o.attention_dropout;
  return a;
}

// Which layers have experts, of Megatron's number or list.
std::vector<bool> expert_layers(const ModelOptions& o) {
  const auto layers = static_cast<std::size_t>(std::max(0, o.num_layers));
  std::string text;
  for (const char c : o.moe_layer_freq)
    if (c != ' ' && c != '(' && c != ')') text += c;
  const auto fail = [&]() {
    throw Error(Code::config, fmt::format("moe-layer-freq '{}' is no number and no list of {} zeros and ones",
                                          o.moe_layer_freq, layers), "", "1, or a list as [0]*3+[1]*58");
  };
  std::vector<bool> all(layers, false);
  if (text.find('[') == std::string::npos) {
    const int every = std::atoi(text.c_str());
    if (every < 1) fail();
    for (std::size_t i = 0; i < layers; i += static_cast<std::size_t>(every)) all[i] = true;
    return all;
  }
  if (std::count(o.moe_layer_freq.begin(), o.moe_layer_freq.end(), '(') !=
      std::count(o.moe_layer_freq.begin(), o.moe_layer_freq.end(), ')'))
    fail();
  all.clear();
  for (std::size_t at = 0; at < text.size();) {
    const auto close = text.find(']', at);
    if (text[at] != '[' || close == std::string::npos) fail();
    std::vector<bool> part;
    for (std::size_t i = at + 1; i < close; ++i)
      if (text[i] == '0' || text[i] == '1') part.push_back(text[i] == '1');
      else if (text[i] != ',') fail();
    at = close + 1;
    int times = 1;
    if (at < text.size() && text[at] == '*') {
      times = std::atoi(text.c_str() + at + 1);
      at = std::min(text.find('+', at), text.size());
    }
    for (int i = 0; i < times && all.size() <= layers; ++i) all.insert(all.end(), part.begin(), part.end());
    if (at < text.size() && text[at++] != '+') fail();
  }
  if (all.size() != layers) fail();
  return all;
}

}  // namespace

ModelSpec build_model(const ModelOptions& o, std::int64_t vocab_size) {
  const NormSpec norm{o.normalization == "RMSNorm" ? NormKind::rms_norm : NormKind::layer_norm, o.norm_epsilon};
  ModelSpec m;
  m.hidden = o.hidden_size;
  m.vocab_size = vocab_size;
  m.vocab_divisor = o.make_vocab_size_divisible_by;
  m.max_positions = o.max_position_embeddings;
  m.learned_positions = o.position_embedding_type == "learned_absolute";
  m.embedding_dropout = o.hidden_dropout;
  m.tied = !o.untie_embeddings_and_output_weights;
  m.fp32_residual = o.fp32_residual_connection;
  m.final_norm = norm;
  m.init_std = o.init_method_std;
  m.embedding_init_std = o.embedding_init_method_std.value_or(o.init_method_std);
  m.output_init_std = o.num_layers > 0 ? o.init_method_std / std::sqrt(2.0 * o.num_layers) : o.init_method_std;
  constexpr int kMaxLayers = 10'000;
  if (o.num_layers > kMaxLayers)
    throw Error(Code::config, fmt::format("num-layers {} is more than {}", o.num_layers, kMaxLayers));
  const std::vector<bool> experts = o.num_experts > 0 ? expert_layers(o) : std::vector<bool>{};
  Tower tower;
  for (int layer = 0; layer < o.num_layers; ++layer) {
    Row mixer{RowKind::attention, layer, norm, attention_of(o), {}, o.hidden_dropout};
    Row ffn{RowKind::ffn, layer, norm, {}, {default_ffn(o), activation_of(o), o.swiglu, o.add_bias_linear},
            o.hidden_dropout};
    if (!experts.empty() && experts[static_cast<std::size_t>(layer)]) {
      ffn.kind = RowKind::moe;
      ffn.ffn.ffn_hidden = o.moe_ffn_hidden_size.value_or(ffn.ffn.ffn_hidden);
      ffn.moe = {o.num_experts, o.moe_router_topk, o.moe_shared_expert_intermediate_size};
    }
    tower.rows.push_back(mixer);
    tower.rows.push_back(ffn);
  }
  m.towers.push_back(std::move(tower));
  return m;
}

std::int64_t padded_vocab(const ModelSpec& model, int tp) {
  const std::int64_t unit = std::int64_t{model.vocab_divisor} * tp;
  return (model.vocab_size + unit - 1) / unit * unit;
}

std::int64_t num_parameters(const ModelSpec& model) {
  std::int64_t n = 0;
  for (const auto& t : logical_tensors(model)) n += num_elements(t.shape);
  return n;
}

namespace {

constexpr const char* kNorms[] = {"LayerNorm", "RMSNorm"};
constexpr const char* kActivations[] = {"gelu_tanh", "gelu_erf", "silu", "squared_relu"};
constexpr const char* kRows[] = {"none", "attention", "ffn", "moe"};

template <class E, std::size_t N>
E parse_enum(const char* const (&names)[N], const std::string& text, const std::string& where) {
  for (std::size_t i = 0; i < N; ++i)
    if (text == names[i]) return static_cast<E>(i);
  throw Error(Code::corrupt, fmt::format("unknown name '{}'", text), where);
}

Json norm_json(const NormSpec& n) { return {{"kind", kNorms[static_cast<int>(n.kind)]}, {"eps", n.eps}}; }

NormSpec norm_from(const Json& j, const std::string& where) {
  return {parse_enum<NormKind>(kNorms, json_field<std::string>(j, "kind", where), where),
          json_field<double>(j, "eps", where)};
}

Json row_json(const Row& r) {
  Json j{{"kind", kRows[static_cast<int>(r.kind)]}, {"layer", r.layer}, {"norm", norm_json(r.norm)},
         {"residual_dropout", r.residual_dropout}};
  if (r.kind == RowKind::attention) {
    const auto& a = r.attention;
    j["heads"] = a.heads;
    j["kv_heads"] = a.kv_heads;
    j["head_dim"] = a.head_dim;
    j["qkv_bias"] = a.qkv_bias;
    j["proj_bias"] = a.proj_bias;
    j["attention_dropout"] = a.dropout;
    if (a.rotary.on)
      j["rotary"] = {{"base", a.rotary.base},
                     {"percent", a.rotary.percent},
                     {"interleaved", a.rotary.interleaved},
                     {"scaling_factor", a.rotary.scaling_factor}};
  } else if (r.kind == RowKind::ffn || r.kind == RowKind::moe) {
    j["ffn_hidden"] = r.ffn.ffn_hidden;
    j["activation"] = kActivations[static_cast<int>(r.ffn.activation)];
    j["gated"] = r.ffn.gated;
    j["bias"] = r.ffn.bias;
    if (r.kind == RowKind::moe)
      j["moe"] = {{"experts", r.moe.experts}, {"topk", r.moe.topk}, {"shared_hidden", r.moe.shared_hidden}};
  }
  return j;
}

Json array_field(const Json& j, const char* key, const std::string& where) {
  Json a = json_field<Json>(j, key, where);
  if (!a.is_array()) throw Error(Code::corrupt, fmt::format("field '{}': wanted an array, found {}", key, a.type_name()), where);
  return a;
}

Row row_from(const Json& j, const std::string& where) {
  Row r;
  r.kind = parse_enum<RowKind>(kRows, json_field<std::string>(j, "kind", where), where);
  r.layer = json_field<int>(j, "layer", where);
  r.norm = norm_from(json_field<Json>(j, "norm", where), where + ", norm");
  r.residual_dropout = json_field<double>(j, "residual_dropout", where);
  if (r.kind == RowKind::attention) {
    auto& a = r.attention;
    a.heads = json_field<int>(j, "heads", where);
    a.kv_heads = json_field<int>(j, "kv_heads", where);
    a.head_dim = json_field<int>(j, "head_dim", where);
    a.qkv_bias = json_field<bool>(j, "qkv_bias", where);
    a.proj_bias = json_field<bool>(j, "proj_bias", where);
    a.dropout = json_field<double>(j, "attention_dropout", where);
    if (j.contains("rotary")) {
      const Json rotary = json_field<Json>(j, "rotary", where);
      const std::string in = where + ", rotary";
      a.rotary = {true, json_field<double>(rotary, "base", in), json_field<double>(rotary, "percent", in),
                  json_field<bool>(rotary, "interleaved", in), json_field<double>(rotary, "scaling_factor", in)};
    }
  } else if (r.kind == RowKind::ffn || r.kind == RowKind::moe) {
    r.ffn.ffn_hidden = json_field<int>(j, "ffn_hidden", where);
    r.ffn.activation =
        parse_enum<Activation>(kActivations, json_field<std::string>(j, "activation", where), where);
    r.ffn.gated = json_field<bool>(j, "gated", where);
    r.ffn.bias = json_field<bool>(j, "bias", where);
    if (r.kind == RowKind::moe) {
      const Json moe = json_field<Json>(j, "moe", where);
      const std::string in = where + ", moe";
      r.moe = {json_field<int>(moe, "experts", in), json_field<int>(moe, "topk", in),
               json_field<int>(moe, "shared_hidden", in)};
    }
  }
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
  if (m.fp32_residual) j["fp32_residual"] = true;
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

void use_fp8(ModelSpec& m, const Fp8Spec& spec) {
  m.fp8 = spec;
  const int layers = m.num_layers();
  for (Tower& t : m.towers)
    for (Row& r : t.rows)
      r.fp8 = spec.on() && r.kind != RowKind::none && r.layer >= spec.first_bf16 && r.layer < layers - spec.last_bf16;
}

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
  if (j.contains("fp32_residual")) m.fp32_residual = json_field<bool>(j, "fp32_residual", where);
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
