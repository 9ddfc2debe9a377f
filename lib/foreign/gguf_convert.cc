#include "foreign/gguf_convert.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "foreign/gguf_file.h"
#include "foreign/rotary_rows.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

namespace fs = std::filesystem;

struct GgufName {
  const char* theirs;
  const char* ours;
};
constexpr GgufName kNames[] = {
    {"token_embd.weight", "embedding.word_embeddings.weight"},
    {"blk.{L}.attn_norm.weight", "decoder.layers.{L}.input_layernorm.weight"},
    {"blk.{L}.attn_q.weight", "decoder.layers.{L}.self_attention.linear_q.weight"},
    {"blk.{L}.attn_k.weight", "decoder.layers.{L}.self_attention.linear_k.weight"},
    {"blk.{L}.attn_v.weight", "decoder.layers.{L}.self_attention.linear_v.weight"},
    {"blk.{L}.attn_q.bias", "decoder.layers.{L}.self_attention.linear_q.bias"},
    {"blk.{L}.attn_k.bias", "decoder.layers.{L}.self_attention.linear_k.bias"},
    {"blk.{L}.attn_v.bias", "decoder.layers.{L}.self_attention.linear_v.bias"},
    {"blk.{L}.attn_output.weight", "decoder.layers.{L}.self_attention.linear_proj.weight"},
    {"blk.{L}.ffn_norm.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"},
    {"blk.{L}.ffn_gate.weight", "decoder.layers.{L}.mlp.linear_fc1_gate.weight"},
    {"blk.{L}.ffn_up.weight", "decoder.layers.{L}.mlp.linear_fc1_up.weight"},
    {"blk.{L}.ffn_down.weight", "decoder.layers.{L}.mlp.linear_fc2.weight"},
    {"output_norm.weight", "decoder.final_layernorm.weight"},
    {"output.weight", "output_layer.weight"},
};

// Values of an architecture: "llama.block_count".
class Values {
 public:
  Values(const GgufFile& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(Code::config, what, file_.where()); }
  bool has(const char* key) const { return file_.values().contains(name(key)); }
  int count(const char* key) const {
    if (!has(key)) fail("does not say " + name(key));
    const Json& v = file_.values()[name(key)];
    if (!v.is_number_integer() || v.get<std::int64_t>() < 1 || v.get<std::int64_t>() > (1 << 28)) fail(fmt::format("{} is {}", name(key), json_line(v)));
    return v.get<int>();
  }
  int count(const char* key, int otherwise) const { return has(key) ? count(key) : otherwise; }
  double real(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    const Json& v = file_.values()[name(key)];
    if (!v.is_number()) fail(fmt::format("{} is {}", name(key), json_line(v)));
    return v.get<double>();
  }

 private:
  std::string name(const char* key) const { return architecture_ + "." + key; }
  const GgufFile& file_;
  std::string architecture_;
};

// Llama-3's rule in the file is a table of factors, of which the largest is the scaling factor.
double scaling_factor(const GgufFile& file) {
  const auto found = file.tensors().find("rope_freqs.weight");
  if (found == file.tensors().end()) return 0;
  if (found->second.type_text != "F32") throw Error(Code::config, "rope_freqs.weight is " + found->second.type_text, file.where());
  std::vector<float> factors(static_cast<std::size_t>(num_elements(found->second.shape)));
  file.read(found->first, whole(found->second.shape), reinterpret_cast<std::byte*>(factors.data()));
  return factors.empty() ? 0 : *std::max_element(factors.begin(), factors.end());
}

ModelSpec model_of(const GgufFile& file, const std::string& architecture) {
  const Values v(file, architecture);
  if (v.count("expert_count", 1) > 1) v.fail("has experts, which are not read");
  if (v.has("rope.scaling.type") && file.values()[architecture + ".rope.scaling.type"] != Json("none"))
    v.fail("rope.scaling.type is " + json_line(file.values()[architecture + ".rope.scaling.type"]) + ", which is not represented");
  ModelOptions o;
  o.num_layers = v.count("block_count");
  o.hidden_size = v.count("embedding_length");
  o.ffn_hidden_size = v.count("feed_forward_length");
  o.num_attention_heads = v.count("attention.head_count");
  o.num_query_groups = v.count("attention.head_count_kv", o.num_attention_heads);
  o.group_query_attention = o.num_query_groups != o.num_attention_heads;
  if (v.has("attention.key_length")) o.kv_channels = v.count("attention.key_length");
  o.max_position_embeddings = v.count("context_length");
  o.norm_epsilon = v.real("attention.layer_norm_rms_epsilon", 1e-5);
  o.rotary_base = v.real("rope.freq_base", 10000);
  const double factor = scaling_factor(file);
  o.use_rope_scaling = factor > 0;
  o.rope_scaling_factor = factor;
  o.normalization = "RMSNorm";
  o.position_embedding_type = "rope";
  o.swiglu = true;
  o.add_bias_linear = false;
  o.add_qkv_bias = architecture == "qwen2";
  o.untie_embeddings_and_output_weights = file.tensors().count("output.weight") > 0;
  o.attention_dropout = o.hidden_dropout = 0;
  const auto table = file.tensors().find("token_embd.weight");
  if (table == file.tensors().end() || table->second.shape.size() != 2) v.fail("token_embd.weight is missing, or no matrix");
  return build_model(o, table->second.shape[0]);
}

std::vector<MappedTensor> map_of(const ModelSpec& model) {
  std::map<std::string, Dims> shapes;
  for (auto& t : logical_tensors(model)) shapes[t.name] = t.shape;
  std::vector<MappedTensor> map;
  for (const auto& n : kNames)
    for (int layer = 0; layer < model.num_layers(); ++layer) {
      const auto ours = of_layer(n.ours, layer);
      const auto found = shapes.find(ours);
      if (found != shapes.end()) map.push_back({of_layer(n.theirs, layer), found->second, {{ours, whole(found->second), whole(found->second)}}, {}});
      if (ours == n.ours) break;  // of no layer
    }
  return map;
}

}  // namespace

SourceTensors gguf_tensors(const fs::path& path) {
  SourceTensors out;
  const GgufFile file(path);
  for (const auto& [name, t] : file.tensors()) out[name] = {t.dtype, t.type_text, path.string(), t.shape, nullptr};
  return out;
}

ForeignModel open_gguf(const fs::path& from) {
  const auto opened = std::make_shared<GgufFile>(from);
  const GgufFile& file = *opened;
  const Json kind = file.values().value("general.architecture", Json());
  if (kind != Json("llama") && kind != Json("qwen2"))
    throw Error(Code::config, fmt::format("architecture {} is not read, only llama and qwen2", json_line(kind)), file.where());
  ForeignModel out;
  out.files = opened;
  NativeImport& in = out.what;
  in.model = model_of(file, kind.get<std::string>());
  in.from = file.where();
  in.map = map_of(in.model);
  in.specs["gguf"] = {{"values", file.values()}};
  const std::int64_t head_dim = kind == Json("llama") ? in.model.decoder().rows.front().attention.head_dim : 0;
  std::size_t unpacked = 0;
  for (const auto& [name, t] : file.tensors()) {
    if (name == "rope_freqs.weight") continue;
    unpacked += t.type_text == "Q8_0" ? 1 : 0;
    SourceTensor s{t.dtype, t.type_text, file.where(), t.shape, [&file, key = name](const Box& box, std::byte* to) { file.read(key, box, to); }};
    const bool pairs = head_dim > 0 && (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight")) && t.shape.size() == 2 && t.dtype;
    out.tensors.emplace(name, pairs ? with_rows_in_halves(std::move(s), head_dim) : std::move(s));
  }
  if (unpacked > 0) out.notices.push_back(fmt::format("{} tensors of type Q8_0 became f32", unpacked));
  out.num_tensors = out.tensors.size();
  return out;
}

Converted import_gguf(const ModelImport& what, const BytesDone& progress) { return import_model(open_gguf(what.from), what, progress); }

}  // namespace mt
