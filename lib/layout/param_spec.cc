#include "layout/param_spec.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"

namespace mt {

namespace {

using Kind = Init::Kind;

// Builds the table of one rank; every member adds the parameters of one kind of unit.
class Builder {
 public:
  Builder(const ModelSpec& m, const ParallelSpec& p, const Coordinate& c) : m_(m), p_(p), c_(c) {}

  void embedding(int unit, int slots) {
    unit_ = unit;
    vocab_table("embedding.word_embeddings.weight", "embedding.word_embeddings.weight", m_.embedding_init_std, slots);
    if (m_.learned_positions)
      replicated("embedding.position_embeddings.weight", {m_.max_positions, m_.hidden},
                 {Kind::normal, m_.embedding_init_std}, p_.sequence_parallel);
  }

  void norm(const std::string& name, NormKind kind) {
    // Each sequence shard sees its own tokens, so the gradient is partial exactly under sequence parallelism.
    replicated(name + ".weight", {m_.hidden}, {Kind::one, 0}, p_.sequence_parallel);
    if (kind == NormKind::layer_norm) replicated(name + ".bias", {m_.hidden}, {}, p_.sequence_parallel);
  }

  void attention(const Row& row, int unit) {
    unit_ = unit;
    const auto& a = row.attention;
    const std::string prefix = fmt::format("decoder.layers.{}.", row.layer), attn = prefix + "self_attention.";
    norm(prefix + "input_layernorm", row.norm.kind);
    const std::int64_t d = a.head_dim, q_rows = a.heads / p_.tp * d;
    const std::int64_t kv_local = std::max(1, a.kv_heads / p_.tp), kv_rows = kv_local * d;
    const int share = std::max(1, p_.tp / a.kv_heads);
    const std::int64_t kv_first = a.kv_heads >= p_.tp ? c_.tp * kv_local : c_.tp / share;
    const std::vector<Axis> over = share > 1 ? std::vector{Axis::kv} : std::vector<Axis>{};
    const auto fused = [&](const std::string& what, bool matrix, Init init) {
      ParamSpec s = start(attn + "linear_qkv." + what, {q_rows + 2 * kv_rows});
      if (matrix) s.shape.push_back(m_.hidden);
      std::int64_t at = 0;
      const auto piece = [&](const char* part, std::int64_t heads, std::int64_t first, std::int64_t rows,
                             const std::vector<Axis>& axes) {
        s.pieces.push_back(row_piece(attn + part + "." + what, heads * d, first * d, rows, at, matrix, init));
        s.pieces.back().replicated = s.pieces.back().grad_sum = axes;
        if (!axes.empty()) s.pieces.back().tp_replicas = share;
        at += rows;
      };
      piece("linear_q", a.heads, std::int64_t{a.heads} / p_.tp * c_.tp, q_rows, {});
      piece("linear_k", a.kv_heads, kv_first, kv_rows, over);
      piece("linear_v", a.kv_heads, kv_first, kv_rows, over);
      finish(std::move(s));
    };
    fused("weight", true, {Kind::normal, m_.init_std});
    if (a.qkv_bias) fused("bias", false, {});
    row_parallel(attn + "linear_proj", std::int64_t{a.heads} * d, a.proj_bias);
  }

  void ffn(const Row& row, int unit) {
    unit_ = unit;
    const std::string prefix = fmt::format("decoder.layers.{}.", row.layer), mlp = prefix + "mlp.";
    norm(prefix + "pre_mlp_layernorm", row.norm.kind);
    const std::int64_t f = row.ffn.ffn_hidden, rows = f / p_.tp;
    const auto fc1 = [&](const std::string& what, bool matrix, Init init) {
      ParamSpec s = start(mlp + "linear_fc1." + what, {row.ffn.gated ? 2 * rows : rows});
      if (matrix) s.shape.push_back(m_.hidden);
      if (row.ffn.gated) {
        s.pieces.push_back(row_piece(mlp + "linear_fc1_gate." + what, f, rows * c_.tp, rows, 0, matrix, init));
        s.pieces.push_back(row_piece(mlp + "linear_fc1_up." + what, f, rows * c_.tp, rows, rows, matrix, init));
      } else {
        s.pieces.push_back(row_piece(mlp + "linear_fc1." + what, f, rows * c_.tp, rows, 0, matrix, init));
      }
      finish(std::move(s));
    };
    fc1("weight", true, {Kind::normal, m_.init_std});
    if (row.ffn.bias) fc1("bias", false, {});
    row_parallel(mlp + "linear_fc2", f, row.ffn.bias);
  }

  // Experts in one stack: [local experts, out, in], cut over ep along experts and over etp as a dense network over tp.
  void moe(const Row& row, int unit) {
    unit_ = unit;
    const std::string prefix = fmt::format("decoder.layers.{}.", row.layer), mlp = prefix + "mlp.";
    norm(prefix + "pre_mlp_layernorm", row.norm.kind);
    replicated(mlp + "router.weight", {row.moe.experts, m_.hidden}, {Kind::normal, m_.init_std}, p_.sequence_parallel);
    const std::int64_t e = row.moe.experts, local = e / p_.ep, first = local * c_.ep;
    const std::int64_t f = row.ffn.ffn_hidden, rows = f / p_.etp, h = m_.hidden;
    ParamSpec fc1 = start(mlp + "experts.linear_fc1.weight", {local, row.ffn.gated ? 2 * rows : rows, h});
    const auto half = [&](const char* name, std::int64_t at) {
      fc1.pieces.push_back({mlp + "experts." + name + ".weight", {e, f, h},
                            {{first, rows * c_.etp, 0}, {local, rows, h}}, {{0, at, 0}, {local, rows, h}}, {}, {},
                            {Kind::normal, m_.init_std}});
    };
    half(row.ffn.gated ? "linear_fc1_gate" : "linear_fc1", 0);
    if (row.ffn.gated) half("linear_fc1_up", rows);
    ParamSpec fc2 = start(mlp + "experts.linear_fc2.weight", {local, h, rows});
    fc2.pieces.push_back({fc2.name, {e, h, f}, {{first, 0, rows * c_.etp}, {local, h, rows}},
                          {{0, 0, 0}, {local, h, rows}}, {}, {}, {Kind::normal, m_.output_init_std}});
    fc1.expert = fc2.expert = true;
    finish(std::move(fc1));
    finish(std::move(fc2));
    if (row.moe.shared_hidden > 0) shared_expert(row, mlp + "shared_experts.");
  }

  void head(int unit, bool holds_embedding) {
    unit_ = unit;
    norm("decoder.final_layernorm", m_.final_norm.kind);
    if (!m_.tied)
      vocab_table("output_layer.weight", "output_layer.weight", m_.init_std, 1);
    else if (!holds_embedding) {
      vocab_table("output_layer.weight", "embedding.word_embeddings.weight", m_.embedding_init_std, 2);
      table_.back().tie_copy = true;
    }
  }

  std::vector<ParamSpec> take() { return std::move(table_); }

 private:
  void shared_expert(const Row& row, const std::string& prefix) {
    const std::int64_t f = row.moe.shared_hidden, rows = f / p_.tp;
    ParamSpec s = start(prefix + "linear_fc1.weight", {row.ffn.gated ? 2 * rows : rows, m_.hidden});
    const auto half = [&](const char* name, std::int64_t at) {
      s.pieces.push_back(row_piece(prefix + name + ".weight", f, rows * c_.tp, rows, at, true, {Kind::normal, m_.init_std}));
    };
    half(row.ffn.gated ? "linear_fc1_gate" : "linear_fc1", 0);
    if (row.ffn.gated) half("linear_fc1_up", rows);
    finish(std::move(s));
    row_parallel(prefix + "linear_fc2", f, false);
  }

  ParamSpec start(std::string name, Dims shape) const {
    ParamSpec s;
    s.name = std::move(name);
    s.shape = std::move(shape);
    s.unit = unit_;
    return s;
  }
  void finish(ParamSpec s) {
    s.decay = s.shape.size() > 1;
    table_.push_back(std::move(s));
  }

  // `rows` rows from `first` of a logical [total, hidden] matrix or [total] vector, at local row `at`.
  Piece row_piece(std::string name, std::int64_t total, std::int64_t first, std::int64_t rows, std::int64_t at,
                  bool matrix, Init init) const {
    Piece p;
    p.name = std::move(name);
    p.init = init;
    p.shape = {total};
    p.box = {{first}, {rows}};
    p.local = {{at}, {rows}};
    if (matrix) {
      p.shape.push_back(m_.hidden);
      for (Box* b : {&p.box, &p.local}) b->offset.push_back(0), b->extent.push_back(m_.hidden);
    }
    return p;
  }

  void vocab_table(std::string name, std::string logical, double std, int slots) {
    const std::int64_t rows = padded_vocab(m_, p_.tp) / p_.tp, first = rows * c_.tp;
    const std::int64_t real = std::clamp<std::int64_t>(m_.vocab_size - first, 0, rows);
    ParamSpec s = start(std::move(name), {rows, m_.hidden});
    s.grad_slots = slots;
    if (slots == 2) s.output_unit = num_units(m_) - 1;
    s.pieces.push_back(row_piece(std::move(logical), m_.vocab_size, std::min(first, m_.vocab_size), real, 0, true,
                                 {Kind::normal, std}));
    finish(std::move(s));
  }

  void replicated(std::string name, Dims shape, Init init, bool partial) {
    ParamSpec s = start(name, shape);
    Piece p{std::move(name), shape, whole(shape), whole(shape), {}, {}, init};
    if (p_.tp > 1) p.replicated = {Axis::tp}, p.tp_replicas = p_.tp;
    if (p_.tp > 1 && partial) p.grad_sum = {Axis::tp};
    s.pieces.push_back(std::move(p));
    finish(std::move(s));
  }

  // [hidden, in] cut along `in`; its bias is whole on every rank and added after the sum.
  void row_parallel(const std::string& name, std::int64_t in, bool bias) {
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
    if (bias) replicated(name + ".bias", {m_.hidden}, {}, p_.sequence_parallel);
  }

  const ModelSpec& m_;
  const ParallelSpec& p_;
  const Coordinate& c_;
  int unit_ = 0;
  std::vector<ParamSpec> table_;
};

}  // namespace

int num_units(const ModelSpec& model) { return static_cast<int>(model.decoder().rows.size()) + 2; }

StageContent stage_content(const ModelSpec& model, const ParallelSpec& p, int pp_rank, int chunk) {
  const auto& rows = model.decoder().rows;
  const int stages = p.pp * p.vpp, stage = p.stage(pp_rank, chunk);
  const std::int64_t layers = model.num_layers();
  const auto row_of = [&](std::int64_t layer) {  // rows are in the order of their layers
    return static_cast<int>(
        std::partition_point(rows.begin(), rows.end(), [&](const Row& r) { return r.layer < layer; }) - rows.begin());
  };
  std::int64_t first = layers * stage / stages, last = layers * (stage + 1) / stages;
  if (const auto& uneven = p.stage_layers; !uneven.empty()) {
    first = std::accumulate(uneven.begin(), uneven.begin() + stage, std::int64_t{0});
    last = first + uneven[static_cast<std::size_t>(stage)];
  }
  return {stage == 0, row_of(first), row_of(last), stage == stages - 1};
}

std::vector<ParamSpec> param_specs(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate) {
  Builder b(model, parallel, coordinate);
  const auto& rows = model.decoder().rows;
  bool embedding_here = false;
  for (int chunk = 0; chunk < parallel.vpp; ++chunk) {
    const auto content = stage_content(model, parallel, coordinate.pp, chunk);
    if (content.embedding) {
      b.embedding(0, model.tied ? 2 : 1);
      embedding_here = true;
    }
    for (int i = content.first_row; i < content.last_row; ++i) {
      const auto& row = rows[static_cast<std::size_t>(i)];
      if (row.kind == RowKind::attention) b.attention(row, i + 1);
      if (row.kind == RowKind::ffn) b.ffn(row, i + 1);
      if (row.kind == RowKind::moe) b.moe(row, i + 1);
    }
    if (content.head) b.head(num_units(model) - 1, embedding_here);
  }
  return b.take();
}

bool first_replica(const Piece& piece, const Coordinate& c) { return c.tp % piece.tp_replicas == 0; }

Replica replica_of(const ParamSpec& spec, const Piece& piece, const ParallelSpec& parallel, const Coordinate& c) {
  if (spec.expert) return {c.edp, parallel.edp()};
  const int tp = piece.tp_replicas;
  return {c.tp % tp + tp * (c.cp + parallel.cp * c.dp), tp * parallel.cp * parallel.dp};
}

Box written_part(const Piece& piece, const Replica& replica, DType dtype) {
  if (replica.count == 1) return piece.box;
  if (bytes_of(dtype, piece.box.size()) >= kWorthCutting) return part_of(piece.box, replica.count, replica.index);
  const auto writer = static_cast<int>(xxh3(piece.name) % static_cast<std::uint64_t>(replica.count));
  if (writer == replica.index) return piece.box;
  Box none = piece.box;
  if (!none.extent.empty()) none.extent[0] = 0;
  return none;
}

std::vector<LogicalTensor> logical_tensors(const ModelSpec& model) {
  std::vector<LogicalTensor> out;
  for (const auto& spec : param_specs(model, ParallelSpec{}, Coordinate{}))
    for (const auto& piece : spec.pieces) out.push_back({piece.name, piece.shape});
  return out;
}

}  // namespace mt
