// Spellings of Megatron's names.

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "foreign/megatron_map.h"

namespace mt {

namespace {

struct Spelling {
  std::string_view theirs, ours;
};

// Starts of names before Megatron Core.
constexpr std::array<Spelling, 7> kStarts = {{
    {"module.", ""},
    {"language_model.embedding.", "embedding."},
    {"language_model.encoder.", "decoder."},
    {"language_model.transformer.", "decoder."},
    {"language_model.output_layer.", "output_layer."},
    {"word_embeddings_for_head.", "output_layer."},
    {"decoder.final_norm.", "decoder.final_layernorm."},
}};
// Inside a layer.
constexpr std::array<Spelling, 11> kInside = {{
    {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
    {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."},
    {"attention.query_key_value.", "self_attention.linear_qkv."},
    {"attention.dense.", "self_attention.linear_proj."},
    {"self_attention.query_key_value.", "self_attention.linear_qkv."},
    {"self_attention.dense.", "self_attention.linear_proj."},
    {"input_norm.", "input_layernorm."},
    {"post_attention_layernorm.", "pre_mlp_layernorm."},
    {"post_attention_norm.", "pre_mlp_layernorm."},
    {"mlp.dense_h_to_4h.", "mlp.linear_fc1."},
    {"mlp.dense_4h_to_h.", "mlp.linear_fc2."},
}};

constexpr std::string_view kLayers = "decoder.layers.", kLocalExperts = "mlp.experts.local_experts.", kExperts = "mlp.experts.";

template <std::size_t N>
std::string replaced_start(std::string name, const std::array<Spelling, N>& table) {
  for (const auto& s : table)
    if (name.starts_with(s.theirs)) return std::string(s.ours) + name.substr(s.theirs.size());
  return name;
}

// Digits at `at`, at most nine; nothing when there are none.
std::optional<int> digits(const std::string& text, std::size_t at, std::size_t& end) {
  end = at;
  while (end < text.size() && end - at < 9 && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  if (end == at) return std::nullopt;
  return std::stoi(text.substr(at, end - at));
}

// "mlp.experts.local_experts.3.linear_fc1.weight" and "mlp.experts.linear_fc1.weight3" become "mlp.experts.3.linear_fc1.weight".
std::string expert_name(const std::string& inside, int first_expert) {
  std::size_t end = 0;
  if (inside.starts_with(kLocalExperts)) {
    const auto e = digits(inside, kLocalExperts.size(), end);
    return e ? std::string(kExperts) + std::to_string(*e + first_expert) + inside.substr(end) : inside;
  }
  if (!inside.starts_with(kExperts)) return inside;
  const auto number = inside.find_last_not_of("0123456789") + 1;
  const auto e = digits(inside, number, end);
  if (!e || end != inside.size()) return inside;
  return std::string(kExperts) + std::to_string(*e + first_expert) + "." + inside.substr(kExperts.size(), number - kExperts.size());
}

}  // namespace

std::string megatron_name(const std::string& theirs, int first_layer, int first_expert) {
  std::string name = replaced_start(theirs, kStarts);
  if (name != theirs) name = replaced_start(name, kStarts);  // behind "module."
  if (!name.starts_with(kLayers)) return name;
  std::size_t end = 0;
  const auto layer = digits(name, kLayers.size(), end);
  if (!layer || end == name.size() || name[end] != '.') return name;
  const std::string inside = expert_name(replaced_start(name.substr(end + 1), kInside), first_expert);
  return std::string(kLayers) + std::to_string(*layer + first_layer) + "." + inside;
}

std::string megatron_dist_name(const std::string& theirs) {
  if (!theirs.starts_with(kLayers)) return theirs;
  std::size_t inside = kLayers.size();
  if (digits(theirs, kLayers.size(), inside)) ++inside;
  else inside = kLayers.size();
  if (inside > theirs.size()) return theirs;
  return theirs.substr(0, inside) + replaced_start(theirs.substr(inside), kInside);
}

namespace {

bool has_experts(const ModelSpec& model, int layer) {
  const auto& rows = model.decoder().rows;
  return std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return (layer < 0 || r.layer == layer) && r.kind == RowKind::moe; });
}

// Norms as the linear layers they are fused with; before experts there is none.
std::string fused(const std::string& inside, bool experts) {
  for (const auto* s : {&kInside[0], &kInside[1]})
    if (inside.starts_with(s->ours) && !(experts && s == &kInside[1])) return std::string(s->theirs) + inside.substr(s->ours.size());
  return inside;
}

}  // namespace

std::string dist_spelled(const std::string& name, const ModelSpec& model, bool transformer_engine) {
  if (!name.starts_with(kLayers)) return name;
  std::size_t inside = kLayers.size();
  const auto layer = digits(name, kLayers.size(), inside);
  inside += layer ? 1 : 0;
  return name.substr(0, inside) + fused(name.substr(inside), transformer_engine && has_experts(model, layer.value_or(-1)));
}

std::string spelled(const std::string& name, const ModelSpec& model, const MegatronSpelling& how) {
  std::size_t end = 0;
  if (!name.starts_with(kLayers)) return name;
  const auto layer = digits(name, kLayers.size(), end);
  if (!layer) return name;
  std::string inside = name.substr(end + 1);
  if (how.transformer_engine) inside = fused(inside, has_experts(model, *layer));
  if (inside.starts_with(kExperts))
    if (const auto e = digits(inside, kExperts.size(), end))
      inside = std::string(kLocalExperts) + std::to_string(*e - how.first_expert) + inside.substr(end);
  return std::string(kLayers) + std::to_string(*layer - how.first_layer) + "." + inside;
}

}  // namespace mt
