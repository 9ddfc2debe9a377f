// BERT: an encoder with its norms behind the residuals, a head for masked tokens, and one for pairs of sentences.

#include "foreign/hf_config.h"
#include "foreign/hf_family.h"

namespace mt {

namespace {

using namespace hf;

using Notices = std::vector<std::string>;

constexpr const char* kWithPairs = "BertForPreTraining";
constexpr const char* kMaskedOnly = "BertForMaskedLM";

// Which heads the files hold is said by the class that wrote them.
bool reads_pairs(const Json& c) {
  const auto classes = get<std::vector<std::string>>(c, "architectures", {});
  const std::string name = classes.empty() ? kWithPairs : classes[0];
  if (name != kWithPairs && name != kMaskedOnly)
    throw Error(Code::config, fmt::format("architectures {} is not represented, only {} and {}", name, kWithPairs, kMaskedOnly));
  return name == kWithPairs;
}

ModelSpec read_bert(const Json& c, Notices&) {
  ModelOptions o;
  o.num_layers = whole_number(c, "num_hidden_layers", 12);
  o.hidden_size = whole_number(c, "hidden_size", 768);
  o.num_attention_heads = whole_number(c, "num_attention_heads", 12);
  o.ffn_hidden_size = whole_number(c, "intermediate_size", 3072);
  o.max_position_embeddings = whole_number(c, "max_position_embeddings", 512);
  o.norm_epsilon = above_zero(c, "layer_norm_eps", 1e-12);
  o.bias_gelu_fusion = false;
  only<std::string>(c, "hidden_act", "gelu", "gelu");
  only<std::string>(c, "position_embedding_type", "absolute", "absolute");
  only(c, "is_decoder", false, false);
  only(c, "add_cross_attention", false, false);
  o.untie_embeddings_and_output_weights = !get<bool>(c, "tie_word_embeddings", true);
  o.attention_dropout = get<double>(c, "attention_probs_dropout_prob", 0.1);
  o.hidden_dropout = get<double>(c, "hidden_dropout_prob", 0.1);
  o.init_method_std = get<double>(c, "initializer_range", 0.02);
  ModelSpec m = build_model(o, vocab_size(c));
  m.embedding_norm = m.final_norm;
  m.final_norm.kind = NormKind::none;
  m.token_types = whole_number(c, "type_vocab_size", 2);
  m.masked_head = true;
  m.pooler = reads_pairs(c);
  m.towers[0].name = "encoder";
  for (auto& row : m.towers[0].rows) {
    row.post_norm = true;
    if (row.kind == RowKind::attention) row.attention.causal = false;
  }
  return m;
}

void write_bert(const ModelSpec& m, Json& c) {
  const Row& attention = first_of(m, RowKind::attention, "bert");
  const Row& ffn = first_of(m, RowKind::ffn, "bert");
  if (!attention.post_norm || attention.attention.causal) not_of("bert", "it looks back alone, or its norms are before the sub-layers");
  put(c, "num_hidden_layers", m.num_layers());
  put(c, "hidden_size", m.hidden);
  put(c, "num_attention_heads", attention.attention.heads);
  put(c, "intermediate_size", ffn.ffn.ffn_hidden);
  put(c, "max_position_embeddings", m.max_positions);
  put(c, "layer_norm_eps", attention.norm.eps);
  put(c, "type_vocab_size", m.token_types);
  put_unless(c, "tie_word_embeddings", m.tied, true);
  if (const auto classes = get<std::vector<std::string>>(c, "architectures", {}); classes.empty() || reads_pairs(c) != m.pooler)
    c["architectures"] = {m.pooler ? kWithPairs : kMaskedOnly};
}

#define MT_LINEAR(theirs, ours) {theirs ".weight", ours ".weight"}, {theirs ".bias", ours ".bias"}
#define MT_LAYER(theirs, ours) MT_LINEAR("bert.encoder.layer.{L}." theirs, "encoder.layers.{L}." ours)

constexpr HfName kNames[] = {
    {"bert.embeddings.word_embeddings.weight", "embedding.word_embeddings.weight"},
    {"bert.embeddings.position_embeddings.weight", "embedding.position_embeddings.weight"},
    {"bert.embeddings.token_type_embeddings.weight", "embedding.tokentype_embeddings.weight"},
    MT_LINEAR("bert.embeddings.LayerNorm", "embedding.layer_norm"),
    MT_LAYER("attention.self.query", "self_attention.linear_q"),
    MT_LAYER("attention.self.key", "self_attention.linear_k"),
    MT_LAYER("attention.self.value", "self_attention.linear_v"),
    MT_LAYER("attention.output.dense", "self_attention.linear_proj"),
    MT_LAYER("attention.output.LayerNorm", "post_self_attn_layernorm"),
    MT_LAYER("intermediate.dense", "mlp.linear_fc1"),
    MT_LAYER("output.dense", "mlp.linear_fc2"),
    MT_LAYER("output.LayerNorm", "post_mlp_layernorm"),
    MT_LINEAR("bert.pooler.dense", "pooler.dense"),
    MT_LINEAR("cls.predictions.transform.dense", "lm_head.dense"),
    MT_LINEAR("cls.predictions.transform.LayerNorm", "lm_head.layer_norm"),
    {"cls.predictions.bias", "output_layer.bias"},
    {"cls.predictions.decoder.weight", "output_layer.weight"},
    MT_LINEAR("cls.seq_relationship", "binary_head")};

#undef MT_LINEAR
#undef MT_LAYER

std::span<const HfName> names(const ModelSpec&) { return kNames; }

constexpr const char* kIgnored[] = {".position_ids"};
constexpr HfCopy kCopies[] = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                              {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
constexpr HfOldName kOldNames[] = {{".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}};

constexpr HfFamily kBert{"bert", kWithPairs, "bert.", names, kIgnored, kCopies, read_bert, write_bert, kOldNames};

}  // namespace

const HfFamily& bert_family() { return kBert; }

}  // namespace mt
