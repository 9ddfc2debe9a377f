// LLaMA and those that follow it.

#include "foreign/hf_config.h"
#include "foreign/hf_family.h"

namespace mt {

namespace {

using namespace hf;

using Notices = std::vector<std::string>;
using Names = std::span<const HfName>;

void require_no_qkv_bias(const ModelSpec& m, const char* family) {
  if (first_of(m, RowKind::attention, family).attention.qkv_bias) not_of(family, "queries, keys and values have biases");
}

ModelSpec read_llama(const Json& c, Notices&) {
  only(c, "attention_bias", false, false);
  only(c, "mlp_bias", false, false);
  return build_model(llama_like(c, 10000), vocab_size(c));
}
void write_llama(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "llama", RowKind::ffn);
  require_no_qkv_bias(m, "llama");
}

ModelSpec read_mistral(const Json& c, Notices& notices) {
  note_window(c, notices);
  return build_model(llama_like(c, 10000), vocab_size(c));
}
void write_mistral(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "mistral", RowKind::ffn);
  require_no_qkv_bias(m, "mistral");
}

ModelSpec read_qwen2(const Json& c, Notices& notices) {
  if (get<bool>(c, "use_sliding_window", false)) note_window(c, notices);
  ModelOptions o = llama_like(c, 10000);
  o.add_qkv_bias = true;
  return build_model(o, vocab_size(c));
}
void write_qwen2(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "qwen2", RowKind::ffn);
  if (!first_of(m, RowKind::attention, "qwen2").attention.qkv_bias) not_of("qwen2", "queries, keys and values have no biases");
}

ModelSpec read_qwen3(const Json& c, Notices& notices) {
  if (get<bool>(c, "use_sliding_window", false)) note_window(c, notices);
  only(c, "attention_bias", false, false);
  ModelOptions o = llama_like(c, 10000);
  o.kv_channels = whole_number(c, "head_dim", 128);
  o.qk_layernorm = true;
  return build_model(o, vocab_size(c));
}
void write_qwen3(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "qwen3", RowKind::ffn);
  require_no_qkv_bias(m, "qwen3");
  put_unless(c, "head_dim", first_of(m, RowKind::attention, "qwen3").attention.head_dim, 128);
}

ModelSpec read_mixtral(const Json& c, Notices& notices) {
  note_window(c, notices);
  ModelOptions o = llama_like(c, 1e6);
  o.num_experts = whole_number(c, "num_local_experts", 8);
  o.moe_router_topk = whole_number(c, "num_experts_per_tok", 2);
  o.moe_ffn_hidden_size = o.ffn_hidden_size;
  return build_model(o, vocab_size(c));
}
void write_mixtral(const ModelSpec& m, Json& c) {
  write_llama_like(m, c, "mixtral", RowKind::moe);
  const Row& row = first_of(m, RowKind::moe, "mixtral");
  require_no_qkv_bias(m, "mixtral");
  if (row.moe.shared_hidden > 0) not_of("mixtral", "there is a shared expert");
  for (const auto& r : m.decoder().rows)
    if (r.kind == RowKind::ffn) not_of("mixtral", "some layers have no experts");
  put(c, "num_local_experts", row.moe.experts);
  put(c, "num_experts_per_tok", row.moe.topk);
}

// Layers without experts: every one that is no multiple of a step, and those of a list.
std::vector<bool> dense_layers(const Json& c, int layers) {
  const int step = whole_number(c, "decoder_sparse_step", 1);
  std::vector<bool> dense(static_cast<std::size_t>(layers));
  for (int i = 0; i < layers; ++i) dense[static_cast<std::size_t>(i)] = (i + 1) % step != 0;
  for (const int i : get<std::vector<int>>(c, "mlp_only_layers", {}))
    if (i >= 0 && i < layers) dense[static_cast<std::size_t>(i)] = true;
  return dense;
}

ModelSpec read_qwen3_moe(const Json& c, Notices& notices) {
  if (get<bool>(c, "use_sliding_window", false)) note_window(c, notices);
  only(c, "attention_bias", false, false);
  ModelOptions o = llama_like(c, 10000);
  o.num_experts = whole_number(c, "num_experts", 128);
  o.moe_router_topk = whole_number(c, "num_experts_per_tok", 8);
  o.moe_ffn_hidden_size = whole_number(c, "moe_intermediate_size", 768);
  if (o.num_layers > 10'000) throw Error(Code::config, fmt::format("num_hidden_layers is {}", o.num_layers));
  o.moe_layer_freq.clear();
  for (const bool dense : dense_layers(c, o.num_layers)) o.moe_layer_freq += (o.moe_layer_freq.empty() ? "[" : ",") + std::string(dense ? "0" : "1");
  o.moe_layer_freq += "]";
  o.qk_layernorm = true;
  ModelSpec m = build_model(o, vocab_size(c));
  for (auto& row : m.towers[0].rows)
    if (row.kind == RowKind::moe) row.moe.normalized = get<bool>(c, "norm_topk_prob", false);
  return m;
}
void write_qwen3_moe(const ModelSpec& m, Json& c) {
  const Row& row = first_of(m, RowKind::moe, "qwen3_moe");
  std::vector<int> dense;
  for (const auto& r : m.decoder().rows)
    if (r.kind == RowKind::ffn) dense.push_back(r.layer);
  // The width of dense layers where there are none is nobody's.
  const Json unused = dense.empty() && has(c, "intermediate_size") ? c["intermediate_size"] : Json();
  write_llama_like(m, c, "qwen3_moe", dense.empty() ? RowKind::moe : RowKind::ffn);
  if (!unused.is_null()) put(c, "intermediate_size", unused);
  require_no_qkv_bias(m, "qwen3_moe");
  put(c, "num_experts", row.moe.experts);
  put(c, "num_experts_per_tok", row.moe.topk);
  put(c, "moe_intermediate_size", row.ffn.ffn_hidden);
  put(c, "norm_topk_prob", row.moe.normalized);
  std::vector<bool> now(static_cast<std::size_t>(m.num_layers()));
  for (const int layer : dense) now[static_cast<std::size_t>(layer)] = true;
  if (dense_layers(c, m.num_layers()) == now) return;
  put(c, "decoder_sparse_step", 1);
  put(c, "mlp_only_layers", dense);
}

#define MT_LLAMA_ATTENTION                                                                                              \
  {"model.embed_tokens.weight", "embedding.word_embeddings.weight"},                                                   \
  {"model.layers.{L}.input_layernorm.weight", "decoder.layers.{L}.input_layernorm.weight"},                            \
  {"model.layers.{L}.self_attn.q_proj.weight", "decoder.layers.{L}.self_attention.linear_q.weight"},                   \
  {"model.layers.{L}.self_attn.k_proj.weight", "decoder.layers.{L}.self_attention.linear_k.weight"},                   \
  {"model.layers.{L}.self_attn.v_proj.weight", "decoder.layers.{L}.self_attention.linear_v.weight"},                   \
  {"model.layers.{L}.self_attn.q_proj.bias", "decoder.layers.{L}.self_attention.linear_q.bias"},                       \
  {"model.layers.{L}.self_attn.k_proj.bias", "decoder.layers.{L}.self_attention.linear_k.bias"},                       \
  {"model.layers.{L}.self_attn.v_proj.bias", "decoder.layers.{L}.self_attention.linear_v.bias"},                       \
  {"model.layers.{L}.self_attn.q_norm.weight", "decoder.layers.{L}.self_attention.q_layernorm.weight"},                \
  {"model.layers.{L}.self_attn.k_norm.weight", "decoder.layers.{L}.self_attention.k_layernorm.weight"},                \
  {"model.layers.{L}.self_attn.o_proj.weight", "decoder.layers.{L}.self_attention.linear_proj.weight"},                \
  {"model.layers.{L}.post_attention_layernorm.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight"}
#define MT_LLAMA_NETWORK                                                                                               \
  {"model.layers.{L}.mlp.gate_proj.weight", "decoder.layers.{L}.mlp.linear_fc1_gate.weight"},                          \
  {"model.layers.{L}.mlp.up_proj.weight", "decoder.layers.{L}.mlp.linear_fc1_up.weight"},                              \
  {"model.layers.{L}.mlp.down_proj.weight", "decoder.layers.{L}.mlp.linear_fc2.weight"}
#define MT_LLAMA_HEAD                                                  \
  {"model.norm.weight", "decoder.final_layernorm.weight"}, {"lm_head.weight", "output_layer.weight"}

constexpr HfName kLlamaNames[] = {MT_LLAMA_ATTENTION, MT_LLAMA_NETWORK, MT_LLAMA_HEAD};

constexpr HfName kMixtralNames[] = {
    MT_LLAMA_ATTENTION,
    {"model.layers.{L}.block_sparse_moe.gate.weight", "decoder.layers.{L}.mlp.router.weight"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight", "decoder.layers.{L}.mlp.experts.linear_fc1_gate.weight"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight", "decoder.layers.{L}.mlp.experts.linear_fc2.weight"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight", "decoder.layers.{L}.mlp.experts.linear_fc1_up.weight"},
    MT_LLAMA_HEAD};

constexpr HfName kQwen3MoeNames[] = {
    MT_LLAMA_ATTENTION, MT_LLAMA_NETWORK,
    {"model.layers.{L}.mlp.gate.weight", "decoder.layers.{L}.mlp.router.weight"},
    {"model.layers.{L}.mlp.experts.{E}.gate_proj.weight", "decoder.layers.{L}.mlp.experts.linear_fc1_gate.weight"},
    {"model.layers.{L}.mlp.experts.{E}.up_proj.weight", "decoder.layers.{L}.mlp.experts.linear_fc1_up.weight"},
    {"model.layers.{L}.mlp.experts.{E}.down_proj.weight", "decoder.layers.{L}.mlp.experts.linear_fc2.weight"},
    MT_LLAMA_HEAD};

#undef MT_LLAMA_ATTENTION
#undef MT_LLAMA_NETWORK
#undef MT_LLAMA_HEAD

Names llama_names(const ModelSpec&) { return kLlamaNames; }
Names mixtral_names(const ModelSpec&) { return kMixtralNames; }
Names qwen3_moe_names(const ModelSpec&) { return kQwen3MoeNames; }

constexpr const char* kIgnored[] = {".rotary_emb.inv_freq"};
constexpr HfCopy kCopies[] = {{"lm_head.weight", "model.embed_tokens.weight"}};

constexpr HfFamily kLlama{"llama", "LlamaForCausalLM", "model.", llama_names, kIgnored, kCopies, read_llama, write_llama};
constexpr HfFamily kMistral{"mistral", "MistralForCausalLM", "model.", llama_names, kIgnored, kCopies, read_mistral, write_mistral};
constexpr HfFamily kQwen2{"qwen2", "Qwen2ForCausalLM", "model.", llama_names, kIgnored, kCopies, read_qwen2, write_qwen2};
constexpr HfFamily kQwen3{"qwen3", "Qwen3ForCausalLM", "model.", llama_names, kIgnored, kCopies, read_qwen3, write_qwen3};
constexpr HfFamily kMixtral{"mixtral", "MixtralForCausalLM", "model.", mixtral_names, kIgnored, kCopies, read_mixtral, write_mixtral};
constexpr HfFamily kQwen3Moe{"qwen3_moe", "Qwen3MoeForCausalLM", "model.", qwen3_moe_names, kIgnored, kCopies, read_qwen3_moe,
                             write_qwen3_moe};

}  // namespace

const HfFamily& llama_family() { return kLlama; }
const HfFamily& mistral_family() { return kMistral; }
const HfFamily& qwen2_family() { return kQwen2; }
const HfFamily& qwen3_family() { return kQwen3; }
const HfFamily& mixtral_family() { return kMixtral; }
const HfFamily& qwen3_moe_family() { return kQwen3Moe; }

}  // namespace mt
