// T5: an encoder and a decoder with relative positions, and no scale of scores.

#include <cmath>

#include "foreign/hf_config.h"
#include "foreign/hf_family.h"

namespace mt {

namespace {

using namespace hf;

using Notices = std::vector<std::string>;

FfnSpec read_network(const Json& c) {
  const auto name = get<std::string>(c, "feed_forward_proj", "relu");
  FfnSpec f;
  f.ffn_hidden = whole_number(c, "d_ff", 2048);
  f.bias = false;
  f.gated = name.rfind("gated-", 0) == 0;
  if (name == "relu") f.activation = Activation::relu;
  else if (name == "gated-gelu") f.activation = Activation::gelu_tanh;
  else if (name == "gated-silu") f.activation = Activation::silu;
  else throw Error(Code::config, "feed_forward_proj " + name + " is not represented, only relu, gated-gelu and gated-silu");
  return f;
}

Tower make_tower(const char* name, int layers, const Row& like, const FfnSpec& network, bool decoder) {
  if (layers > 10'000) throw Error(Code::config, fmt::format("{} layers are more than 10000", layers));
  Tower t;
  t.name = name;
  for (int layer = 0; layer < layers; ++layer) {
    Row row = like;
    row.layer = layer;
    row.attention.causal = decoder;
    t.rows.push_back(row);
    if (decoder) {
      row.kind = RowKind::cross_attention;
      row.attention.relative = {};
      row.attention.causal = false;
      t.rows.push_back(row);
    }
    row.kind = RowKind::ffn;
    row.attention = {};
    row.ffn = network;
    t.rows.push_back(row);
  }
  return t;
}

ModelSpec read_t5(const Json& c, Notices&) {
  ModelSpec m;
  m.hidden = whole_number(c, "d_model", 512);
  m.vocab_size = vocab_size(c);
  m.max_positions = whole_number(c, "n_positions", 512);
  m.tied = get<bool>(c, "tie_word_embeddings", true);
  m.final_norm = {NormKind::rms_norm, above_zero(c, "layer_norm_epsilon", 1e-6)};
  m.embedding_dropout = get<double>(c, "dropout_rate", 0.1);
  m.output_scale = m.tied ? 1 / std::sqrt(static_cast<double>(m.hidden)) : 1;
  only(c, "is_encoder_decoder", true, true);
  Row row;
  row.kind = RowKind::attention;
  row.norm = m.final_norm;
  row.residual_dropout = m.embedding_dropout;
  AttentionSpec& a = row.attention;
  a.heads = a.kv_heads = whole_number(c, "num_heads", 8);
  a.head_dim = whole_number(c, "d_kv", 64);
  a.qkv_bias = a.proj_bias = false;
  a.dropout = m.embedding_dropout;
  a.scale = 1;
  a.relative = {whole_number(c, "relative_attention_num_buckets", 32), whole_number(c, "relative_attention_max_distance", 128)};
  const FfnSpec network = read_network(c);
  const int layers = whole_number(c, "num_layers", 6);
  m.towers.push_back(make_tower("encoder", layers, row, network, false));
  m.towers.push_back(make_tower("decoder", whole_number(c, "num_decoder_layers", layers), row, network, true));
  return m;
}

void write_t5(const ModelSpec& m, Json& c) {
  if (m.towers.size() != 2) not_of("t5", "there are no two towers");
  const Row& attention = first_of(m, RowKind::attention, "t5");
  const Row& ffn = first_of(m, RowKind::ffn, "t5");
  const AttentionSpec& a = attention.attention;
  if (a.relative.buckets == 0) not_of("t5", "positions are not relative");
  const char* network = !ffn.ffn.gated ? "relu" : ffn.ffn.activation == Activation::silu ? "gated-silu" : "gated-gelu";
  const int encoder = m.towers[0].num_layers(), decoder = m.towers[1].num_layers();
  put(c, "d_model", m.hidden);
  put(c, "d_kv", a.head_dim);
  put(c, "d_ff", ffn.ffn.ffn_hidden);
  put(c, "num_heads", a.heads);
  put(c, "num_layers", encoder);
  if (get<int>(c, "num_decoder_layers", encoder) != decoder) put(c, "num_decoder_layers", decoder);
  put_unless(c, "n_positions", m.max_positions, 512);
  put(c, "layer_norm_epsilon", m.final_norm.eps);
  put_unless<std::string>(c, "feed_forward_proj", network, "relu");
  put(c, "relative_attention_num_buckets", a.relative.buckets);
  put(c, "relative_attention_max_distance", a.relative.distance);
  put_unless(c, "tie_word_embeddings", m.tied, true);
}

#define MT_SELF_ATTENTION(tower, L)                                                                                            \
  {tower ".block.{" L "}.layer.0.layer_norm.weight", tower ".layers.{" L "}.input_layernorm.weight"},                          \
  {tower ".block.{" L "}.layer.0.SelfAttention.q.weight", tower ".layers.{" L "}.self_attention.linear_q.weight"},             \
  {tower ".block.{" L "}.layer.0.SelfAttention.k.weight", tower ".layers.{" L "}.self_attention.linear_k.weight"},             \
  {tower ".block.{" L "}.layer.0.SelfAttention.v.weight", tower ".layers.{" L "}.self_attention.linear_v.weight"},             \
  {tower ".block.{" L "}.layer.0.SelfAttention.o.weight", tower ".layers.{" L "}.self_attention.linear_proj.weight"}
#define MT_NETWORK(tower, L, at)                                                                                               \
  {tower ".block.{" L "}.layer." at ".layer_norm.weight", tower ".layers.{" L "}.pre_mlp_layernorm.weight"},                   \
  {tower ".block.{" L "}.layer." at ".DenseReluDense.wi.weight", tower ".layers.{" L "}.mlp.linear_fc1.weight"},               \
  {tower ".block.{" L "}.layer." at ".DenseReluDense.wi_0.weight", tower ".layers.{" L "}.mlp.linear_fc1_gate.weight"},        \
  {tower ".block.{" L "}.layer." at ".DenseReluDense.wi_1.weight", tower ".layers.{" L "}.mlp.linear_fc1_up.weight"},          \
  {tower ".block.{" L "}.layer." at ".DenseReluDense.wo.weight", tower ".layers.{" L "}.mlp.linear_fc2.weight"}
#define MT_ENDS(tower)                                                                     \
  {tower ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",                  \
   tower "_relative_pos_emb.relative_attention_bias.weight"},                              \
  {tower ".final_layer_norm.weight", tower ".final_layernorm.weight"}

constexpr HfName kNames[] = {
    {"shared.weight", "embedding.word_embeddings.weight"},
    MT_SELF_ATTENTION("encoder", "M"), MT_NETWORK("encoder", "M", "1"), MT_ENDS("encoder"),
    MT_SELF_ATTENTION("decoder", "L"),
    {"decoder.block.{L}.layer.1.layer_norm.weight", "decoder.layers.{L}.pre_cross_attn_layernorm.weight"},
    {"decoder.block.{L}.layer.1.EncDecAttention.q.weight", "decoder.layers.{L}.cross_attention.linear_q.weight"},
    {"decoder.block.{L}.layer.1.EncDecAttention.k.weight", "decoder.layers.{L}.cross_attention.linear_k.weight"},
    {"decoder.block.{L}.layer.1.EncDecAttention.v.weight", "decoder.layers.{L}.cross_attention.linear_v.weight"},
    {"decoder.block.{L}.layer.1.EncDecAttention.o.weight", "decoder.layers.{L}.cross_attention.linear_proj.weight"},
    MT_NETWORK("decoder", "L", "2"), MT_ENDS("decoder"),
    {"lm_head.weight", "output_layer.weight"}};

#undef MT_SELF_ATTENTION
#undef MT_NETWORK
#undef MT_ENDS

std::span<const HfName> names(const ModelSpec&) { return kNames; }

// What older files have, and read by nothing: of cross attention, which has no positions.
constexpr const char* kIgnored[] = {".EncDecAttention.relative_attention_bias.weight"};
constexpr HfCopy kCopies[] = {{"encoder.embed_tokens.weight", "shared.weight"},
                              {"decoder.embed_tokens.weight", "shared.weight"},
                              {"lm_head.weight", "shared.weight"}};

constexpr HfFamily kT5{"t5", "T5ForConditionalGeneration", "", names, kIgnored, kCopies, read_t5, write_t5};

}  // namespace

const HfFamily& t5_family() { return kT5; }

}  // namespace mt
