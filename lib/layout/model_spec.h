#pragma once
// A model as values: towers of sub-layer rows. Nothing here knows how it is cut over ranks.
//
//   tower   an ordered list of rows over one residual stream (decoder; later encoder, vision)
//   row     one sub-layer with its norm and residual: a mixer (attention) or a feed-forward network; a transformer
//           layer is two rows with one layer number; a `none` row is legal and computes nothing
//   hidden  width of the residual stream
//
// Options → spec: build_model. Named families: layout/families.h. Code: layout/model_spec.cc. Tests: tests/layout/.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "layout/fp8_spec.h"

namespace mt {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class Activation : std::uint8_t { gelu_tanh, gelu_erf, silu, squared_relu };
enum class RowKind : std::uint8_t { none, attention, ffn, moe };

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

struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  RotarySpec rotary;
  bool qkv_bias = true, proj_bias = true;
  double dropout = 0;
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
};

struct Tower {
  std::string name = "decoder";
  std::vector<Row> rows;
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
  NormSpec final_norm;
  double init_std = 0.02, embedding_init_std = 0.02, output_init_std = 0.02;
  Fp8Spec fp8;
  std::vector<Tower> towers;

  const Tower& decoder() const { return towers.front(); }
  int num_layers() const;
};

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
