#include "layout/model_spec.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "layout/param_spec.h"

namespace mt {

int Tower::num_layers() const {
  int n = 0;
  for (const auto& row : rows) n = std::max(n, row.layer + 1);
  return n;
}

int ModelSpec::num_layers() const {
  int n = 0;
  for (const auto& tower : towers) n += tower.num_layers();
  return n;
}

std::vector<StackedRow> stacked_rows(const ModelSpec& model) {
  std::vector<StackedRow> out;
  int first = 0;
  for (const auto& tower : model.towers) {
    for (const auto& row : tower.rows) out.push_back({&tower, &row, first + row.layer});
    first += tower.num_layers();
  }
  return out;
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
  a.qk_norm = o.qk_layernorm;
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
      ffn.moe.experts = o.num_experts;
      ffn.moe.topk = o.moe_router_topk;
      ffn.moe.shared_hidden = o.moe_shared_expert_intermediate_size;
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

void use_fp8(ModelSpec& m, const Fp8Spec& spec) {
  m.fp8 = spec;
  const int layers = m.num_layers();
  for (Tower& t : m.towers)
    for (Row& r : t.rows)
      r.fp8 = spec.on() && r.kind != RowKind::none && r.layer >= spec.first_bf16 && r.layer < layers - spec.last_bf16;
}

}  // namespace mt
