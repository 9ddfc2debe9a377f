#pragma once
// A model as values: towers of sub-layer rows. Nothing here knows how it is cut over ranks.
//
//   tower   an ordered list of rows over one residual stream: decoder, encoder, or an encoder and then a decoder
//   row     one sub-layer with its norm and residual: a mixer (attention) or a feed-forward network; a transformer
//           layer is two rows with one layer number, three where it looks at an encoder; a `none` row is legal and
//           computes nothing
//   hidden  width of the residual stream
//
// More can be said here than is computed: layout/not_computed.h tells what. Options → spec: build_model. Code:
// layout/model_spec.cc, layout/model_json.cc. Tests: tests/layout/.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "layout/fp8_spec.h"

namespace mt {

enum class NormKind : std::uint8_t { layer_norm, rms_norm, none };
enum class Activation : std::uint8_t { gelu_tanh, gelu_erf, silu, squared_relu, relu };
enum class RowKind : std::uint8_t { none, attention, ffn, moe, cross_attention };

struct NormSpec {
  NormKind kind = NormKind::layer_norm;
  double eps = 1e-5;
};

// Rotary positions. The first percent·head_dim features of a head rotate; `scaling_factor` > 0 is the llama-3 rule.
struct RotarySpec {
  bool on = false;
  double base = 10000.0, percent = 1.0;
  bool interleaved = false;
  double scaling_factor = 0;
};

// Multi-head latent attention: keys and values are made of `kv_rank` features a token, queries of `q_rank`. A head of
// q and k has `nope` features and `rope` that rotate (the keys' are one for all heads); one of v has `value`.
struct LatentSpec {
  int kv_rank = 0;  // 0: no latent attention
  int q_rank = 0;   // 0: queries are made of the input at once
  int nope = 0, rope = 0, value = 0;
  bool on() const { return kv_rank > 0; }
};

// A learned number a head for how far key and query are apart: `buckets` distances up to `distance`, 0: none.
struct RelativeSpec {
  int buckets = 0, distance = 0;
};

struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  RotarySpec rotary;
  bool qkv_bias = true, proj_bias = true;
  double dropout = 0;
  bool qk_norm = false;   // RMSNorm of every head of q and k, before they rotate
  bool causal = true;     // looks at nothing behind
  double alibi = 0;       // scores fall with distance, by so many times the head's slope
  double scale = 0;       // of scores; 0: 1/√head_dim
  RelativeSpec relative = {};
  LatentSpec latent = {};  // head_dim is nope + rope then
};

struct FfnSpec {
  int ffn_hidden = 0;
  Activation activation = Activation::gelu_tanh;
  bool gated = false;  // fc1 gives gate and up; output act(gate)·up
  bool bias = true;
};

// A feed-forward network of experts, of which each token visits `topk`; each has the shape of the row's `ffn`. Laid out,
// counted and sized; not trained yet.
struct MoeSpec {
  int experts = 0, topk = 0;
  int shared_hidden = 0;  // width of what every token visits besides; 0: nothing
  bool sigmoid = false;   // scores of experts are sigmoids, not a softmax
  bool normalized = true; // scores of those visited are divided by their sum
  bool expert_bias = false;         // a number an expert, added for the choice alone
  int groups = 0, topk_groups = 0;  // experts lie in groups, of which so many are chosen from; 0: all
  double scale = 1;                 // of the scores
};

struct Row {
  RowKind kind = RowKind::none;
  int layer = 0;  // global, from 0
  NormSpec norm;
  AttentionSpec attention;  // when kind is attention
  FfnSpec ffn;              // when kind is ffn or moe
  double residual_dropout = 0;
  bool fp8 = false;  // its products are (ModelSpec::fp8); training alone, not part of the model's JSON
  MoeSpec moe = {};         // when kind is moe
  // Reads what the row before it read; both are added to that. Without a norm of its own it reads what that norm gave.
  bool parallel = false;
  bool post_norm = false;  // the norm is of the sum that the row leaves, not of what it reads
};

struct Tower {
  std::string name = "decoder";
  std::vector<Row> rows;
  int num_layers() const;
};

struct ModelSpec {
  std::string family = "gpt";
  int hidden = 0;
  std::int64_t vocab_size = 0;        // true size: what is stored
  int vocab_divisor = 128;            // --make-vocab-size-divisible-by; padded rows are computed, never saved
  int max_positions = 0;
  bool learned_positions = false;
  double embedding_dropout = 0;
  bool tied = true;                   // output layer is the word embedding
  bool fp32_residual = false;         // the residual stream between sub-layers in f32
  NormSpec final_norm;                // behind every tower
  NormSpec embedding_norm = {NormKind::none};
  int token_types = 0;                // an embedding of so many kinds of tokens besides; 0: none
  bool masked_head = false;           // before the output layer a product, its norm, and behind it a bias (BERT)
  bool pooler = false;                // of the first token, with two classes for pairs of sentences (BERT)
  double output_scale = 1;            // of what the output layer reads
  int mtp_layers = 0;                 // behind the decoder, each like its last layer: they predict tokens further on
  double init_std = 0.02, embedding_init_std = 0.02, output_init_std = 0.02;
  Fp8Spec fp8;
  std::vector<Tower> towers;

  const Tower& decoder() const { return towers.back(); }  // the tower that ends in the output layer
  int num_layers() const;                                 // of all towers
};

// Rows of all towers one after the other, with their layers counted through: what a pipeline cuts.
struct StackedRow {
  const Tower* tower = nullptr;
  const Row* row = nullptr;
  int layer = 0;
};
std::vector<StackedRow> stacked_rows(const ModelSpec& model);

// The flat options of a decoder model, with Megatron's names and defaults (facts: its arguments.py); what the flag
// table fills.
struct ModelOptions {
  int num_layers = 0, hidden_size = 0, num_attention_heads = 0, max_position_embeddings = 0;
  std::optional<int> ffn_hidden_size, kv_channels;
  bool group_query_attention = false;
  int num_query_groups = 1;
  std::string position_embedding_type = "learned_absolute";  // or rope, none
  double rotary_base = 10000, rotary_percent = 1.0;
  bool rotary_interleaved = false, use_rope_scaling = false;
  double rope_scaling_factor = 8.0;
  std::string normalization = "LayerNorm";  // or RMSNorm
  double norm_epsilon = 1e-5;
  bool qk_layernorm = false;
  bool swiglu = false, squared_relu = false, openai_gelu = false, bias_gelu_fusion = true;
  bool add_bias_linear = true, add_qkv_bias = false;
  int num_experts = 0;  // 0: none
  std::string moe_layer_freq = "1";  // N: every N-th layer from the first; or a list as ([0]*3+[1]*58)
  std::optional<int> moe_ffn_hidden_size;  // default ffn_hidden_size
  int moe_router_topk = 2, moe_shared_expert_intermediate_size = 0;
  bool untie_embeddings_and_output_weights = false;
  int make_vocab_size_divisible_by = 128;
  double attention_dropout = 0.1, hidden_dropout = 0.1;
  double init_method_std = 0.02;
  std::optional<double> embedding_init_method_std;
  bool fp32_residual_connection = false;
};

// Options to spec: two rows a layer, defaults as Megatron (ffn 4h, or floor(8h/3/64)·64 with swiglu; gelu is the tanh
// form when bias-gelu-fusion is on, as Megatron's fused kernel computes).
//   fails  Error{config} above 10,000 layers, or for a list of layers that is none; other impossible sizes are listed by validate()
ModelSpec build_model(const ModelOptions& options, std::int64_t vocab_size);

// Dtype of the residual stream, between sub-layers and between stages.
inline DType residual_dtype(const ModelSpec& model, DType compute) {
  return model.fp32_residual ? DType::f32 : compute;
}

// Train with fp8 products: every row of a layer that `spec` does not leave in bf16.
void use_fp8(ModelSpec& model, const Fp8Spec& spec);

// Rows of the word embedding and the output layer as computed: the true size rounded up to vocab_divisor·tp.
std::int64_t padded_vocab(const ModelSpec& model, int tp);

// Round trip for manifests.   fails  Error{corrupt} naming the field
Json to_json(const ModelSpec& model);
ModelSpec model_from_json(const Json& json, const std::string& where);

// The first thing in which two models compute differently, as "decoder row 3: heads 4 and 8", empty when nothing does.
// What only starts or regularises them (initial values, dropout, padding of the vocabulary) does not count.
std::string model_difference(const ModelSpec& a, const ModelSpec& b);

// True parameters (padding excluded, tied weights once).
std::int64_t num_parameters(const ModelSpec& model);

}  // namespace mt
