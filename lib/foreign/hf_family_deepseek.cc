// DeepSeek-V2 and V3: multi-head latent attention, experts in groups beside shared ones.

#include "foreign/hf_config.h"
#include "foreign/hf_family.h"

namespace mt {

namespace {

using namespace hf;

using Notices = std::vector<std::string>;
using Names = std::span<const HfName>;

// Rotary positions stretched in some way are kept in the config, and nothing here computes them.
Json without_scaling(const Json& c, Notices& notices) {
  Json plain = c;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!has(c, key)) continue;
    const auto type = get<std::string>(c[key], "rope_type", get<std::string>(c[key], "type", "default"));
    if (type == "default") continue;
    notices.push_back(fmt::format("{} of type {} passes through", key, type));
    if (key == std::string("rope_scaling")) plain.erase(key);
    else plain[key]["rope_type"] = "default";
  }
  return plain;
}

LatentSpec read_latent(const Json& c) {
  LatentSpec l;
  l.kv_rank = whole_number(c, "kv_lora_rank", 512);
  if (!c.contains("q_lora_rank")) l.q_rank = 1536;
  else if (has(c, "q_lora_rank")) l.q_rank = whole_number(c, "q_lora_rank");
  l.nope = whole_number(c, "qk_nope_head_dim", 128);
  l.rope = whole_number(c, "qk_rope_head_dim", 64);
  l.value = whole_number(c, "v_head_dim", 128);
  return l;
}

struct Generation {
  const char* name;
  int first_dense;  // first_k_dense_replace where there is none
  bool third;
};
constexpr Generation kV2{"deepseek_v2", 0, false}, kV3{"deepseek_v3", 3, true};

void read_router(const Json& c, const Generation& g, MoeSpec& moe) {
  only<std::string>(c, "scoring_func", g.third ? "sigmoid" : "softmax", g.third ? "sigmoid" : "softmax");
  moe.sigmoid = moe.expert_bias = g.third;
  moe.normalized = get<bool>(c, "norm_topk_prob", g.third);
  moe.scale = above_zero(c, "routed_scaling_factor", g.third ? 2.5 : 1.0);
  const auto method = get<std::string>(c, "topk_method", g.third ? "noaux_tc" : "greedy");
  if (method != (g.third ? "noaux_tc" : "greedy") && (g.third || method != "group_limited_greedy"))
    throw Error(Code::config, "topk_method " + method + " is not represented");
  if (method == "greedy") return;
  moe.groups = whole_number(c, "n_group", 8);
  moe.topk_groups = whole_number(c, "topk_group", 4);
}

ModelSpec read_deepseek(const Json& c, const Generation& g, Notices& notices) {
  only(c, "attention_bias", false, false);
  only(c, "mlp_bias", false, false);
  only(c, "moe_layer_freq", 1, 1);
  ModelOptions o = llama_like(without_scaling(c, notices), 10000);
  if (o.num_layers > 10'000) throw Error(Code::config, fmt::format("num_hidden_layers is {}", o.num_layers));
  const LatentSpec latent = read_latent(c);
  o.group_query_attention = false;
  o.kv_channels = latent.nope + latent.rope;
  o.rotary_interleaved = get<bool>(c, "rope_interleave", true);
  o.num_experts = whole_number(c, "n_routed_experts", g.third ? 256 : 64);
  o.moe_router_topk = whole_number(c, "num_experts_per_tok", 8);
  o.moe_ffn_hidden_size = whole_number(c, "moe_intermediate_size", g.third ? 2048 : 1407);
  const std::int64_t shared = (c.contains("n_shared_experts") && !has(c, "n_shared_experts"))
                                  ? 0
                                  : get<std::int64_t>(c, "n_shared_experts", g.third ? 1 : 2) * *o.moe_ffn_hidden_size;
  if (shared < 0 || shared > (1 << 28)) throw Error(Code::config, fmt::format("n_shared_experts make {} features", shared));
  o.moe_shared_expert_intermediate_size = static_cast<int>(shared);
  const auto dense = get<std::int64_t>(c, "first_k_dense_replace", g.first_dense);
  o.moe_layer_freq.clear();
  for (int i = 0; i < o.num_layers; ++i) o.moe_layer_freq += (i == 0 ? "[" : ",") + std::string(i < dense ? "0" : "1");
  o.moe_layer_freq += "]";
  ModelSpec m = build_model(o, vocab_size(c));
  m.mtp_layers = get<int>(c, "num_nextn_predict_layers", 0);
  if (m.mtp_layers < 0 || m.mtp_layers > 1000) throw Error(Code::config, fmt::format("num_nextn_predict_layers is {}", m.mtp_layers));
  for (auto& row : m.towers[0].rows) {
    if (row.kind == RowKind::attention) row.attention.latent = latent;
    if (row.kind == RowKind::moe) read_router(c, g, row.moe);
  }
  return m;
}

void write_router(const MoeSpec& moe, const Generation& g, Json& c) {
  if (moe.sigmoid != g.third || moe.expert_bias != g.third) not_of(g.name, "experts are chosen by other scores");
  put(c, "n_routed_experts", moe.experts);
  put(c, "num_experts_per_tok", moe.topk);
  put_unless(c, "norm_topk_prob", moe.normalized, g.third);
  put(c, "routed_scaling_factor", moe.scale);
  if (!g.third) put(c, "topk_method", moe.groups > 0 ? "group_limited_greedy" : "greedy");
  if (moe.groups == 0) return;
  put(c, "n_group", moe.groups);
  put(c, "topk_group", moe.topk_groups);
}

void write_deepseek(const ModelSpec& m, const Generation& g, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, g.name);
  const AttentionSpec& a = attention.attention;
  const LatentSpec& l = a.latent;
  if (!l.on()) not_of(g.name, "attention is not latent");
  const Row& experts = first_of(m, RowKind::moe, g.name);
  int dense = 0;
  for (const auto& r : m.decoder().rows)
    if (r.kind == RowKind::ffn) {
      ++dense;
      put(c, "intermediate_size", r.ffn.ffn_hidden);
    }
  put_unless(c, "intermediate_size", get<int>(c, "intermediate_size", experts.ffn.ffn_hidden), 0);
  put(c, "hidden_size", m.hidden);
  put(c, "num_hidden_layers", m.num_layers());
  put(c, "num_attention_heads", a.heads);
  put(c, "num_key_value_heads", a.kv_heads);
  put(c, "max_position_embeddings", m.max_positions);
  put(c, "rms_norm_eps", attention.norm.eps);
  put(c, "tie_word_embeddings", m.tied);
  put(c, "rope_theta", a.rotary.base);
  if (has(c, "rope_parameters")) put(c["rope_parameters"], "rope_theta", a.rotary.base);
  put_unless(c, "rope_interleave", a.rotary.interleaved, true);
  put(c, "kv_lora_rank", l.kv_rank);
  if (l.q_rank > 0) put(c, "q_lora_rank", l.q_rank);
  else put(c, "q_lora_rank", Json());
  put(c, "qk_nope_head_dim", l.nope);
  put(c, "qk_rope_head_dim", l.rope);
  put(c, "v_head_dim", l.value);
  if (has(c, "head_dim")) put(c, "head_dim", l.rope);
  if (has(c, "qk_head_dim")) put(c, "qk_head_dim", l.nope + l.rope);
  put(c, "first_k_dense_replace", dense);
  put(c, "moe_intermediate_size", experts.ffn.ffn_hidden);
  if (experts.moe.shared_hidden % experts.ffn.ffn_hidden != 0) not_of(g.name, "the shared expert is not some experts wide");
  if (const int shared = experts.moe.shared_hidden / experts.ffn.ffn_hidden; shared > 0) put(c, "n_shared_experts", shared);
  else put(c, "n_shared_experts", Json());
  put_unless(c, "num_nextn_predict_layers", m.mtp_layers, 0);
  write_router(experts.moe, g, c);
}

ModelSpec read_v2(const Json& c, Notices& notices) { return read_deepseek(c, kV2, notices); }
ModelSpec read_v3(const Json& c, Notices& notices) { return read_deepseek(c, kV3, notices); }
void write_v2(const ModelSpec& m, Json& c) { write_deepseek(m, kV2, c); }
void write_v3(const ModelSpec& m, Json& c) { write_deepseek(m, kV3, c); }

#define MT_LAYER(theirs, ours)                                                                             \
  {theirs "input_layernorm.weight", ours "input_layernorm.weight"},                                        \
  {theirs "self_attn.q_proj.weight", ours "self_attention.linear_q_proj.weight"},                          \
  {theirs "self_attn.q_a_proj.weight", ours "self_attention.linear_q_down_proj.weight"},                   \
  {theirs "self_attn.q_a_layernorm.weight", ours "self_attention.q_layernorm.weight"},                     \
  {theirs "self_attn.q_b_proj.weight", ours "self_attention.linear_q_up_proj.weight"},                     \
  {theirs "self_attn.kv_a_proj_with_mqa.weight", ours "self_attention.linear_kv_down_proj.weight"},        \
  {theirs "self_attn.kv_a_layernorm.weight", ours "self_attention.kv_layernorm.weight"},                   \
  {theirs "self_attn.kv_b_proj.weight", ours "self_attention.linear_kv_up_proj.weight"},                   \
  {theirs "self_attn.o_proj.weight", ours "self_attention.linear_proj.weight"},                            \
  {theirs "post_attention_layernorm.weight", ours "pre_mlp_layernorm.weight"},                             \
  {theirs "mlp.gate_proj.weight", ours "mlp.linear_fc1_gate.weight"},                                      \
  {theirs "mlp.up_proj.weight", ours "mlp.linear_fc1_up.weight"},                                          \
  {theirs "mlp.down_proj.weight", ours "mlp.linear_fc2.weight"},                                           \
  {theirs "mlp.gate.weight", ours "mlp.router.weight"},                                                    \
  {theirs "mlp.gate.e_score_correction_bias", ours "mlp.router.expert_bias"},                              \
  {theirs "mlp.experts.{E}.gate_proj.weight", ours "mlp.experts.linear_fc1_gate.weight"},                  \
  {theirs "mlp.experts.{E}.up_proj.weight", ours "mlp.experts.linear_fc1_up.weight"},                      \
  {theirs "mlp.experts.{E}.down_proj.weight", ours "mlp.experts.linear_fc2.weight"},                       \
  {theirs "mlp.shared_experts.gate_proj.weight", ours "mlp.shared_experts.linear_fc1_gate.weight"},        \
  {theirs "mlp.shared_experts.up_proj.weight", ours "mlp.shared_experts.linear_fc1_up.weight"},            \
  {theirs "mlp.shared_experts.down_proj.weight", ours "mlp.shared_experts.linear_fc2.weight"}

constexpr HfName kNames[] = {
    {"model.embed_tokens.weight", "embedding.word_embeddings.weight"},
    MT_LAYER("model.layers.{L}.", "decoder.layers.{L}."),
    {"model.layers.{P}.enorm.weight", "mtp.layers.{P}.enorm.weight"},
    {"model.layers.{P}.hnorm.weight", "mtp.layers.{P}.hnorm.weight"},
    {"model.layers.{P}.eh_proj.weight", "mtp.layers.{P}.eh_proj.weight"},
    MT_LAYER("model.layers.{P}.", "mtp.layers.{P}.transformer_layer."),
    {"model.layers.{P}.shared_head.norm.weight", "mtp.layers.{P}.final_layernorm.weight"},
    {"model.norm.weight", "decoder.final_layernorm.weight"},
    {"lm_head.weight", "output_layer.weight"}};

#undef MT_LAYER

Names names(const ModelSpec&) { return kNames; }

constexpr const char* kIgnored[] = {".rotary_emb.inv_freq"};
constexpr HfCopy kCopies[] = {{"lm_head.weight", "model.embed_tokens.weight"},
                              {"model.layers.{P}.embed_tokens.weight", "model.embed_tokens.weight"},
                              {"model.layers.{P}.shared_head.head.weight", "lm_head.weight"}};

constexpr HfFamily kFamilyV2{"deepseek_v2", "DeepseekV2ForCausalLM", "model.", names, kIgnored, kCopies, read_v2, write_v2};
constexpr HfFamily kFamilyV3{"deepseek_v3", "DeepseekV3ForCausalLM", "model.", names, kIgnored, kCopies, read_v3, write_v3};

}  // namespace

const HfFamily& deepseek_v2_family() { return kFamilyV2; }
const HfFamily& deepseek_v3_family() { return kFamilyV3; }

}  // namespace mt
