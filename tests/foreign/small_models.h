#pragma once
// Small models of Hugging Face's families, written by hand: configs as their files have them, values that are a hash of
// their tensor and place.

#include <cstring>
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
        "initializer_range": 0.02})"}};
  return all;
}

inline std::byte hf_byte(const std::string& name, std::uint64_t at) {
  return static_cast<std::byte>((xxh3(name) + at * 0x9E3779B97F4A7C15ull) >> 56);
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
