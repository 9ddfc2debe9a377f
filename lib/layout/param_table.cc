#include "layout/param_table.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

namespace {

using Kind = Init::Kind;

}  // namespace

void ParamTable::row(const Tower& tower, const Row& row, int unit) {
  unit_ = unit;
  if (row.layer == 0 && row.kind == RowKind::attention && row.attention.relative.buckets > 0)
    replicated(tower.name + "_relative_pos_emb.relative_attention_bias.weight",
               {row.attention.relative.buckets, row.attention.heads}, {Kind::normal, m_.init_std});
  layer_row(fmt::format("{}.layers.{}.", tower.name, row.layer), row);
}

void ParamTable::layer_row(const std::string& prefix, const Row& row) {
  switch (row.kind) {
    case RowKind::none: return;
    case RowKind::attention:
      norm(prefix + (row.post_norm ? "post_self_attn_layernorm" : "input_layernorm"), row.norm.kind);
      return row.attention.latent.on() ? latent_attention(prefix + "self_attention.", row.attention)
                                       : attention(prefix + "self_attention.", row.attention);
    case RowKind::cross_attention:
      norm(prefix + "pre_cross_attn_layernorm", row.norm.kind);
      return cross_attention(prefix + "cross_attention.", row.attention);
    case RowKind::ffn:
    case RowKind::moe:
      norm(prefix + (row.post_norm ? "post_mlp_layernorm" : "pre_mlp_layernorm"), row.norm.kind);
      return row.kind == RowKind::ffn ? ffn(prefix + "mlp.", row.ffn) : moe(prefix + "mlp.", row);
  }
}

void ParamTable::norm(const std::string& name, NormKind kind) {
  if (kind == NormKind::none) return;
  replicated(name + ".weight", {m_.hidden}, {Kind::one, 0});
  if (kind == NormKind::layer_norm) replicated(name + ".bias", {m_.hidden}, {});
}

void ParamTable::queries_keys_values(const std::string& name, const AttentionSpec& a, bool queries, bool keys) {
  const std::int64_t d = a.head_dim, q_rows = queries ? a.heads / p_.tp * d : 0;
  const std::int64_t kv_local = std::max(1, a.kv_heads / p_.tp), kv_rows = keys ? kv_local * d : 0;
  const int share = std::max(1, p_.tp / a.kv_heads);
  const std::int64_t kv_first = a.kv_heads >= p_.tp ? c_.tp * kv_local : c_.tp / share;
  const std::vector<Axis> over = share > 1 ? std::vector{Axis::kv} : std::vector<Axis>{};
  const std::string fused = name + (queries && keys ? "linear_qkv." : queries ? "linear_q." : "linear_kv.");
  const auto add = [&](const std::string& what, std::int64_t in, Init init) {
    ParamSpec s = start(fused + what, {q_rows + 2 * kv_rows});
    if (in > 0) s.shape.push_back(in);
    std::int64_t at = 0;
    const auto piece = [&](const char* part, std::int64_t heads, std::int64_t first, std::int64_t rows,
                           const std::vector<Axis>& axes) {
      if (rows == 0) return;
      s.pieces.push_back(row_piece(name + part + what, {heads * d, first * d, rows, at, in}, init));
      s.pieces.back().replicated = s.pieces.back().grad_sum = axes;
      if (!axes.empty()) s.pieces.back().tp_replicas = share;
      at += rows;
    };
    piece("linear_q.", a.heads, std::int64_t{a.heads} / p_.tp * c_.tp, q_rows, {});
    piece("linear_k.", a.kv_heads, kv_first, kv_rows, over);
    piece("linear_v.", a.kv_heads, kv_first, kv_rows, over);
    finish(std::move(s));
  };
  add("weight", m_.hidden, {Kind::normal, m_.init_std});
  if (a.qkv_bias) add("bias", 0, {});
}

void ParamTable::attention(const std::string& name, const AttentionSpec& a) {
  queries_keys_values(name, a, true, true);
  if (a.qk_norm) {
    // Of this rank's heads alone.
    replicated(name + "q_layernorm.weight", {a.head_dim}, {Kind::one, 0}, true);
    replicated(name + "k_layernorm.weight", {a.head_dim}, {Kind::one, 0}, true);
  }
  row_parallel(name + "linear_proj", std::int64_t{a.heads} * a.head_dim, a.proj_bias);
}

void ParamTable::cross_attention(const std::string& name, const AttentionSpec& a) {
  queries_keys_values(name, a, true, false);
  queries_keys_values(name, a, false, true);
  row_parallel(name + "linear_proj", std::int64_t{a.heads} * a.head_dim, a.proj_bias);
}

// The narrow products are whole on every rank, the wide ones are cut by heads.
void ParamTable::latent_attention(const std::string& name, const AttentionSpec& a) {
  const LatentSpec& l = a.latent;
  const std::int64_t heads = a.heads, q = heads * (l.nope + l.rope);
  const Init normal{Kind::normal, m_.init_std};
  if (l.q_rank > 0) {
    replicated(name + "linear_q_down_proj.weight", {l.q_rank, m_.hidden}, normal);
    replicated(name + "q_layernorm.weight", {l.q_rank}, {Kind::one, 0});
    column_parallel(name + "linear_q_up_proj", q, l.q_rank);
  } else {
    column_parallel(name + "linear_q_proj", q, m_.hidden);
  }
  replicated(name + "linear_kv_down_proj.weight", {l.kv_rank + l.rope, m_.hidden}, normal);
  replicated(name + "kv_layernorm.weight", {l.kv_rank}, {Kind::one, 0});
  column_parallel(name + "linear_kv_up_proj", heads * (l.nope + l.value), l.kv_rank);
  row_parallel(name + "linear_proj", heads * l.value, a.proj_bias);
}

void ParamTable::ffn(const std::string& name, const FfnSpec& spec) {
  const std::int64_t f = spec.ffn_hidden, rows = f / p_.tp;
  const auto fc1 = [&](const std::string& what, std::int64_t in, Init init) {
    ParamSpec s = start(name + "linear_fc1." + what, {spec.gated ? 2 * rows : rows});
    if (in > 0) s.shape.push_back(in);
    const auto half = [&](const char* part, std::int64_t at) {
      s.pieces.push_back(row_piece(name + part + what, {f, rows * c_.tp, rows, at, in}, init));
    };
    half(spec.gated ? "linear_fc1_gate." : "linear_fc1.", 0);
    if (spec.gated) half("linear_fc1_up.", rows);
    finish(std::move(s));
  };
  fc1("weight", m_.hidden, {Kind::normal, m_.init_std});
  if (spec.bias) fc1("bias", 0, {});
  row_parallel(name + "linear_fc2", f, spec.bias);
}

// Experts in one stack: [local experts, out, in], cut over ep along experts and over etp as a dense network over tp.
void ParamTable::moe(const std::string& name, const Row& row) {
  replicated(name + "router.weight", {row.moe.experts, m_.hidden}, {Kind::normal, m_.init_std});
  if (row.moe.expert_bias) replicated(name + "router.expert_bias", {row.moe.experts}, {});
  const std::int64_t e = row.moe.experts, local = e / p_.ep, first = local * c_.ep;
  const std::int64_t f = row.ffn.ffn_hidden, rows = f / p_.etp, h = m_.hidden;
  ParamSpec fc1 = start(name + "experts.linear_fc1.weight", {local, row.ffn.gated ? 2 * rows : rows, h});
  const auto half = [&](const char* part, std::int64_t at) {
    fc1.pieces.push_back({name + "experts." + part + ".weight", {e, f, h},
                          {{first, rows * c_.etp, 0}, {local, rows, h}}, {{0, at, 0}, {local, rows, h}}, {}, {},
                          {Kind::normal, m_.init_std}});
  };
  half(row.ffn.gated ? "linear_fc1_gate" : "linear_fc1", 0);
  if (row.ffn.gated) half("linear_fc1_up", rows);
  ParamSpec fc2 = start(name + "experts.linear_fc2.weight", {local, h, rows});
  fc2.pieces.push_back({fc2.name, {e, h, f}, {{first, 0, rows * c_.etp}, {local, h, rows}},
                        {{0, 0, 0}, {local, h, rows}}, {}, {}, {Kind::normal, m_.output_init_std}});
  fc1.expert = fc2.expert = true;
  finish(std::move(fc1));
  finish(std::move(fc2));
  if (row.moe.shared_hidden > 0) shared_expert(name + "shared_experts.", row);
}

void ParamTable::shared_expert(const std::string& name, const Row& row) {
  FfnSpec f = row.ffn;
  f.ffn_hidden = row.moe.shared_hidden;
  f.bias = false;
  ffn(name, f);
}

ParamSpec ParamTable::start(std::string name, Dims shape) const {
  ParamSpec s;
  s.name = std::move(name);
  s.shape = std::move(shape);
  s.unit = unit_;
  return s;
}

void ParamTable::finish(ParamSpec s) {
  s.decay = s.shape.size() > 1;
  table_.push_back(std::move(s));
}

Piece ParamTable::row_piece(std::string name, const RowsOf& r, Init init) {
  Piece p;
  p.name = std::move(name);
  p.init = init;
  p.shape = {r.total};
  p.box = {{r.first}, {r.rows}};
  p.local = {{r.at}, {r.rows}};
  if (r.in > 0) {
    p.shape.push_back(r.in);
    for (Box* b : {&p.box, &p.local}) b->offset.push_back(0), b->extent.push_back(r.in);
  }
  return p;
}

void ParamTable::replicated(const std::string& name, Dims shape, Init init, bool partial) {
  ParamSpec s = start(name, shape);
  Piece p{name, shape, whole(shape), whole(shape), {}, {}, init};
  if (p_.tp > 1) p.replicated = {Axis::tp}, p.tp_replicas = p_.tp;
  if (p_.tp > 1 && partial) p.grad_sum = {Axis::tp};
  s.pieces.push_back(std::move(p));
  finish(std::move(s));
}

void ParamTable::replicated_linear(const std::string& name, std::int64_t out, std::int64_t in) {
  replicated(name + ".weight", {out, in}, {Kind::normal, m_.init_std});
  replicated(name + ".bias", {out}, {});
}

void ParamTable::column_parallel(const std::string& name, std::int64_t out, std::int64_t in) {
  const std::int64_t rows = out / p_.tp;
  ParamSpec s = start(name + ".weight", {rows, in});
  s.pieces.push_back(row_piece(s.name, {out, rows * c_.tp, rows, 0, in}, {Kind::normal, m_.init_std}));
  finish(std::move(s));
}

void ParamTable::row_parallel(const std::string& name, std::int64_t in, bool bias) {
  const std::int64_t cols = in / p_.tp;
  ParamSpec s = start(name + ".weight", {m_.hidden, cols});
  s.pieces.push_back({name + ".weight",
                      {m_.hidden, in},
                      {{0, cols * c_.tp}, {m_.hidden, cols}},
                      {{0, 0}, {m_.hidden, cols}},
                      {},
                      {},
                      {Kind::normal, m_.output_init_std}});
  finish(std::move(s));
  if (bias) replicated(name + ".bias", {m_.hidden}, {});
}

}  // namespace mt
