#pragma once
// A tiny model with weights, inputs and PyTorch's answers, read from tests/golden/*.safetensors.

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "ckpt/safetensors.h"
#include "layout/model_spec.h"

namespace mt::test {

struct GoldenTensor {
  Dims shape;
  std::vector<float> values;       // F32
  std::vector<std::int32_t> ints;  // I32
};

inline std::map<std::string, GoldenTensor> read_golden(const std::string& name) {
  const char* source = std::getenv("MT_TEST_SOURCE");
  const fs::path path = fs::path(source ? source : ".") / "tests/golden" / (name + ".safetensors");
  const auto header = read_safetensors_header(path);
  const std::string bytes = read_file(path);
  std::map<std::string, GoldenTensor> out;
  for (const auto& t : header.tensors) {
    GoldenTensor g{t.shape, {}, {}};
    const char* from = bytes.data() + header.data_start + t.begin;
    const std::size_t n = static_cast<std::size_t>(num_elements(t.shape));
    if (t.dtype == DType::i32) {
      g.ints.resize(n);
      std::memcpy(g.ints.data(), from, n * 4);
    } else {
      g.values.resize(n);
      std::memcpy(g.values.data(), from, n * 4);
    }
    out[t.name] = std::move(g);
  }
  return out;
}

// The sizes of tests/golden/make_models.py.
inline ModelSpec golden_spec(const std::string& name) {
  ModelOptions o;
  o.num_layers = 2;
  o.hidden_size = 32;
  o.num_attention_heads = 4;
  o.max_position_embeddings = 12;
  o.make_vocab_size_divisible_by = 8;
  o.attention_dropout = o.hidden_dropout = 0;
  o.ffn_hidden_size = 64;
  if (name != "gpt2") {
    o.ffn_hidden_size = 48;
    o.group_query_attention = true;
    o.num_query_groups = 2;
    o.position_embedding_type = "rope";
    o.normalization = "RMSNorm";
    o.swiglu = true;
    o.add_bias_linear = false;
    o.untie_embeddings_and_output_weights = true;
  }
  if (name == "qwen3") {
    o.kv_channels = 12;
    o.qk_layernorm = true;
  }
  return build_model(o, 37);
}

}  // namespace mt::test
