#pragma once
// Small models of Hugging Face's families, written by hand: configs as their files have them, values that are a hash of
// their tensor and place.

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/temporary_directory.h"
#include "foreign/hf_family.h"
#include "foreign/hf_files.h"

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

namespace mt::test {

struct SmallModel {
  const char* name;
  DType dtype;
  const char* config;
};

inline const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> all{
      {"llama", DType::f32, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
        "hidden_act": "silu", "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "tie_word_embeddings": true, "vocab_size": 37,
        "bos_token_id": 1, "eos_token_id": [2, 3], "torch_dtype": "float32", "mine": {"kept": null}, "initializer_range": 0.02})"},
      {"mistral", DType::bf16, R"({"model_type": "mistral", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
        "hidden_act": "silu", "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 37,
        "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"qwen2", DType::bf16, R"({"model_type": "qwen2", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-06, "hidden_act": "silu",
        "rope_theta": 1000000.0, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 37, "torch_dtype": "bfloat16",
        "initializer_range": 0.02})"},
      {"mixtral", DType::bf16, R"({"model_type": "mixtral", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "hidden_act": "silu",
        "rope_theta": 1000000.0, "num_local_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": false, "vocab_size": 37,
        "torch_dtype": "bfloat16", "initializer_range": 0.02, "sliding_window": null})"},
      {"gpt2", DType::f32, R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 4, "n_head": 4, "n_positions": 64, "n_inner": null,
        "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new", "vocab_size": 37, "torch_dtype": "float32",
        "initializer_range": 0.02})"},
      {"qwen3", DType::bf16, R"({"model_type": "qwen3", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
        "hidden_act": "silu", "rope_theta": 1000000, "rope_scaling": null, "attention_bias": false, "tie_word_embeddings": true,
        "vocab_size": 37, "dtype": "bfloat16", "initializer_range": 0.02})"},
      {"qwen3_moe", DType::bf16, R"({"model_type": "qwen3_moe", "hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
        "hidden_act": "silu", "rope_theta": 10000.0, "decoder_sparse_step": 2, "mlp_only_layers": [], "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 12, "norm_topk_prob": true, "tie_word_embeddings": false,
        "vocab_size": 37, "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"gpt_neox", DType::f16, R"({"model_type": "gpt_neox", "hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 4,
        "num_attention_heads": 4, "max_position_embeddings": 64, "layer_norm_eps": 1e-05, "hidden_act": "gelu", "rotary_pct": 0.5,
        "rotary_emb_base": 10000, "tie_word_embeddings": false, "use_parallel_residual": true, "vocab_size": 37,
        "torch_dtype": "float16", "initializer_range": 0.02})"},
      {"falcon-one-key", DType::bf16, R"({"model_type": "falcon", "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4,
        "alibi": false, "bias": false, "multi_query": true, "new_decoder_architecture": false, "parallel_attn": true,
        "layer_norm_epsilon": 1e-05, "vocab_size": 37, "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"falcon-groups", DType::bf16, R"({"model_type": "falcon", "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_kv_heads": 2, "alibi": false, "bias": false, "multi_query": true, "new_decoder_architecture": true,
        "parallel_attn": true, "layer_norm_epsilon": 1e-05, "vocab_size": 37, "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"falcon-one-norm", DType::bf16, R"({"model_type": "falcon", "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_kv_heads": 2, "alibi": false, "bias": false, "new_decoder_architecture": true, "num_ln_in_parallel_attn": 1,
        "parallel_attn": true, "ffn_hidden_size": 40, "tie_word_embeddings": false, "layer_norm_epsilon": 1e-05, "vocab_size": 37,
        "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"falcon-in-turn", DType::bf16, R"({"model_type": "falcon", "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4,
        "alibi": true, "bias": true, "multi_query": false, "new_decoder_architecture": false, "parallel_attn": false,
        "layer_norm_epsilon": 1e-05, "vocab_size": 37, "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"bloom", DType::f32, R"({"model_type": "bloom", "n_embed": 16, "n_layer": 4, "num_attention_heads": 4, "seq_length": 64,
        "layer_norm_epsilon": 1e-05, "apply_residual_connection_post_layernorm": false, "vocab_size": 37,
        "torch_dtype": "float32", "initializer_range": 0.02})"},
      {"deepseek_v2", DType::bf16, R"({"model_type": "deepseek_v2", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
        "hidden_act": "silu", "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40}, "kv_lora_rank": 8,
        "q_lora_rank": null, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "n_routed_experts": 4,
        "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "topk_method": "greedy", "n_group": 1, "topk_group": 1, "norm_topk_prob": false, "routed_scaling_factor": 1.0,
        "scoring_func": "softmax", "tie_word_embeddings": false, "vocab_size": 37, "torch_dtype": "bfloat16",
        "initializer_range": 0.02})"},
      {"deepseek_v3", DType::bf16, R"({"model_type": "deepseek_v3", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
        "hidden_act": "silu", "rope_theta": 10000, "rope_scaling": null, "kv_lora_rank": 8, "q_lora_rank": 12,
        "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "n_routed_experts": 4, "n_shared_experts": 1,
        "num_experts_per_tok": 2, "moe_intermediate_size": 8, "first_k_dense_replace": 3, "topk_method": "noaux_tc", "num_nextn_predict_layers": 2, "n_group": 2,
        "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
        "tie_word_embeddings": false, "vocab_size": 37, "torch_dtype": "bfloat16", "initializer_range": 0.02})"},
      {"t5", DType::f32, R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": 16, "d_kv": 6, "d_ff": 24,
        "num_heads": 4, "num_layers": 4, "num_decoder_layers": 2, "layer_norm_epsilon": 1e-06, "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": true, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
        "tie_word_embeddings": false, "vocab_size": 37, "torch_dtype": "float32", "initializer_factor": 1.0})"},
      {"t5-tied", DType::f32, R"({"model_type": "t5", "d_model": 16, "d_kv": 6, "d_ff": 24, "num_heads": 4, "num_layers": 4,
        "n_positions": 512, "layer_norm_epsilon": 1e-06, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 128, "vocab_size": 37, "torch_dtype": "float32"})"},
      {"bert", DType::f32, R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 32, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "hidden_act": "gelu", "vocab_size": 37, "torch_dtype": "float32", "initializer_range": 0.02})"}};
  return all;
}

inline std::byte hf_byte(const std::string& name, std::uint64_t at) {
  return static_cast<std::byte>((xxh3(name) + at * 0x9E3779B97F4A7C15ull) >> 56);
}

// The family's name in the config: of several models of one family names differ.
inline std::string family_of(const SmallModel& m) { return parse_json(m.config, m.name)["model_type"].get<std::string>(); }

inline const SmallModel& small_model(const std::string& name) {
  for (const auto& m : small_models())
    if (m.name == name) return m;
  throw std::logic_error(name);
}

// The model as a directory; every byte of a tensor is hf_byte of its name and place.
inline void write_small(const SmallModel& m, const std::filesystem::path& dir, std::uint64_t max_shard_bytes = 1 << 30) {
  const Json config = parse_json(m.config, m.name);
  const HfModel model = read_hf_config(config, m.name);
  std::vector<HfTensor> tensors;
  for (const auto& t : hf_tensor_map(*model.family, model.spec, model.family->prefix)) tensors.push_back({t.name, m.dtype, t.shape});
  write_hf({dir, max_shard_bytes, false}, tensors, config, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* out) {
    for (auto at = begin; at < end; ++at) *out++ = hf_byte(tensors[i].name, at);
  });
}

// Bytes of every tensor there that are not so; and how many tensors there are.
inline std::pair<std::int64_t, std::size_t> wrong_bytes(const std::filesystem::path& dir) {
  const HfWeights weights(dir);
  std::int64_t wrong = 0;
  for (const auto& [name, t] : weights.tensors()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(t.entry.end - t.entry.begin));
    weights.read(name, whole(t.entry.shape), bytes.data());
    for (std::size_t i = 0; i < bytes.size(); ++i) wrong += bytes[i] != hf_byte(name, i);
  }
  return {wrong, weights.tensors().size()};
}

}  // namespace mt::test
