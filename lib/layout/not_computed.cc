#include "layout/not_computed.h"

#include <algorithm>
#include <vector>

namespace mt {

std::string not_computed(const ModelSpec& model) {
  std::vector<const char*> all;
  const auto add = [&](bool there, const char* name) {
    if (there && std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  };
  add(model.towers.size() > 1, "an encoder beside the decoder");
  add(model.token_types > 0, "embeddings of token types");
  add(model.embedding_norm.kind != NormKind::none, "a norm of the embedding");
  add(model.masked_head, "a head for masked tokens");
  add(model.pooler, "a pooler");
  add(model.output_scale != 1, "a scaled output");
  add(model.mtp_layers > 0, "layers that predict further tokens");
  for (const auto& [tower, row, layer] : stacked_rows(model)) {
    const AttentionSpec& a = row->attention;
    add(row->kind == RowKind::cross_attention, "cross attention");
    add(row->post_norm, "norms behind the residual");
    add(row->parallel, "parallel residuals");
    if (row->kind == RowKind::attention) {
      add(a.latent.on(), "multi-head latent attention");
      add(a.qk_norm && row->norm.kind != NormKind::rms_norm, "norms of queries and keys beside LayerNorm");
      add(!a.causal, "attention in both directions");
      add(a.alibi != 0, "ALiBi");
      add(a.relative.buckets > 0, "relative positions");
      add(a.scale != 0, "scores scaled otherwise");
    }
  }
  std::string text;
  for (const char* name : all) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace mt
