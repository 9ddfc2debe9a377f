#include <algorithm>

#include "base/error.h"
#include "layout/param_table.h"

namespace mt {

namespace {

using Kind = Init::Kind;

}  // namespace

void ParamTable::embedding(int unit, int slots) {
  unit_ = unit;
  vocab_table("embedding.word_embeddings.weight", "embedding.word_embeddings.weight", m_.embedding_init_std, slots);
  if (m_.learned_positions)
    replicated("embedding.position_embeddings.weight", {m_.max_positions, m_.hidden}, {Kind::normal, m_.embedding_init_std});
  if (m_.token_types > 0)
    replicated("embedding.tokentype_embeddings.weight", {m_.token_types, m_.hidden}, {Kind::normal, m_.embedding_init_std});
  norm("embedding.layer_norm", m_.embedding_norm.kind);
}

void ParamTable::tower_end(const Tower& tower, int unit) {
  unit_ = unit;
  norm(tower.name + ".final_layernorm", m_.final_norm.kind);
}

void ParamTable::head(int unit, bool holds_embedding) {
  tower_end(m_.decoder(), unit);
  if (m_.masked_head) masked_head();
  if (m_.pooler) {
    replicated_linear("pooler.dense", m_.hidden, m_.hidden);
    replicated_linear("binary_head", 2, m_.hidden);
  }
  for (int i = 0; i < m_.mtp_layers; ++i) mtp_layer(i);
  if (!m_.tied)
    vocab_table("output_layer.weight", "output_layer.weight", m_.init_std, 1);
  else if (!holds_embedding) {
    vocab_table("output_layer.weight", "embedding.word_embeddings.weight", m_.embedding_init_std, 2);
    table_.back().tie_copy = true;
  }
}

void ParamTable::masked_head() {
  replicated_linear("lm_head.dense", m_.hidden, m_.hidden);
  norm("lm_head.layer_norm", NormKind::layer_norm);
  const std::int64_t rows = padded_vocab(m_, p_.tp) / p_.tp, first = std::min(rows * c_.tp, m_.vocab_size);
  ParamSpec s = start("output_layer.bias", {rows});
  s.pieces.push_back(row_piece(s.name, {m_.vocab_size, first, std::clamp<std::int64_t>(m_.vocab_size - rows * c_.tp, 0, rows), 0, 0}, {}));
  finish(std::move(s));
}

void ParamTable::mtp_layer(int index) {
  const std::string prefix = fmt::format("mtp.layers.{}.", index);
  norm(prefix + "enorm", m_.final_norm.kind);
  norm(prefix + "hnorm", m_.final_norm.kind);
  replicated(prefix + "eh_proj.weight", {m_.hidden, 2 * std::int64_t{m_.hidden}}, {Kind::normal, m_.init_std});
  const auto& rows = m_.decoder().rows;
  for (const Row& row : rows)
    if (row.layer == rows.back().layer) layer_row(prefix + "transformer_layer.", row);
  norm(prefix + "final_layernorm", m_.final_norm.kind);
}

void ParamTable::vocab_table(std::string name, const std::string& logical, double std, int slots) {
  const std::int64_t rows = padded_vocab(m_, p_.tp) / p_.tp, first = rows * c_.tp;
  const std::int64_t real = std::clamp<std::int64_t>(m_.vocab_size - first, 0, rows);
  ParamSpec s = start(std::move(name), {rows, m_.hidden});
  s.grad_slots = slots;
  if (slots == 2) s.output_unit = num_units(m_) - 1;
  s.pieces.push_back(row_piece(logical, {m_.vocab_size, std::min(first, m_.vocab_size), real, 0, m_.hidden}, {Kind::normal, std}));
  finish(std::move(s));
}

}  // namespace mt
