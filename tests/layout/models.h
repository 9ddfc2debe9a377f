#pragma once
// Small models of the two families, for tests of tables.

#include "layout/model_spec.h"
#include "layout/parallel_spec.h"

namespace mt::test {

struct Sizes {
  bool llama = true;
  int heads = 8, kv_heads = 2;
  std::int64_t vocab = 61;
};

// Two layers, hidden 32, vocabulary padded to multiples of 4·tp.
inline ModelOptions small_options(const Sizes& s) {
  ModelOptions o;
  o.num_layers = 2;
  o.hidden_size = 32;
  o.num_attention_heads = s.heads;
  o.group_query_attention = true;
  o.num_query_groups = s.kv_heads;
  o.max_position_embeddings = 24;
  o.make_vocab_size_divisible_by = 4;
  o.ffn_hidden_size = 48;
  if (s.llama) {
    o.position_embedding_type = "rope";
    o.normalization = "RMSNorm";
    o.swiglu = true;
    o.add_bias_linear = false;
    o.untie_embeddings_and_output_weights = true;
  }
  return o;
}

inline ModelSpec small_model(const Sizes& s = {}) { return build_model(small_options(s), s.vocab); }

inline ParallelSpec layout(int tp, int dp, bool sequence_parallel = false, int zero_stage = 0) {
  ParallelSpec p;
  p.zero_stage = zero_stage;
  p.tp = tp, p.dp = dp;
  p.sequence_parallel = sequence_parallel;
  return p;
}

}  // namespace mt::test
