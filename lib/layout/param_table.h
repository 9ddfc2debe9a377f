#pragma once
// The parameter table of one rank as it is made, row by row; read it through layout/param_spec.h.
//
// Every call adds the parameters of one row or end of the model, cut for the rank, as parameters of `unit`. Names begin with
// the tower's: decoder.layers.3.…, encoder.layers.0.…
// Code: layout/param_table.cc (rows), layout/param_table_ends.cc (embedding and head). Tests: tests/layout/param_spec_test.cc.

#include <string>
#include <vector>

#include "layout/param_spec.h"

namespace mt {

class ParamTable {
 public:
  // All three must outlive the table.
  ParamTable(const ModelSpec& m, const ParallelSpec& p, const Coordinate& c) : m_(m), p_(p), c_(c) {}

  // Words, positions, kinds of tokens, their norm.   slots  of the gradient of the words' table (ParamSpec::grad_slots)
  void embedding(int unit, int slots);
  // What the row's kind holds; nothing for none.
  void row(const Tower& tower, const Row& row, int unit);
  // The norm behind a tower that is not the last.
  void tower_end(const Tower& tower, int unit);
  // Final norm and output layer.   holds_embedding  this rank has the words' table that the output layer is tied to
  void head(int unit, bool holds_embedding);

  std::vector<ParamSpec> take() { return std::move(table_); }

 private:
  // Rows [first, first + rows) of a logical [total, in] matrix or [total] vector (in 0), at local row `at`.
  struct RowsOf {
    std::int64_t total = 0, first = 0, rows = 0, at = 0, in = 0;
  };

  void layer_row(const std::string& prefix, const Row& row);
  void norm(const std::string& name, NormKind kind);
  void attention(const std::string& name, const AttentionSpec& a);
  void latent_attention(const std::string& name, const AttentionSpec& a);
  void cross_attention(const std::string& name, const AttentionSpec& a);
  void queries_keys_values(const std::string& name, const AttentionSpec& a, bool queries, bool keys);
  void ffn(const std::string& name, const FfnSpec& f);
  void moe(const std::string& name, const Row& row);
  void shared_expert(const std::string& name, const Row& row);
  void masked_head();
  void mtp_layer(int index);

  ParamSpec start(std::string name, Dims shape) const;
  void finish(ParamSpec s);
  static Piece row_piece(std::string name, const RowsOf& r, Init init);
  void vocab_table(std::string name, const std::string& logical, double std, int slots);
  // partial  ranks of tp each have a part of its gradient. Each sequence shard sees its own tokens, so usually that is so
  //          exactly under sequence parallelism
  void replicated(const std::string& name, Dims shape, Init init, bool partial);
  void replicated(const std::string& name, Dims shape, Init init) { replicated(name, std::move(shape), init, p_.sequence_parallel); }
  // [out, in] whole on every rank, [out] of its bias.
  void replicated_linear(const std::string& name, std::int64_t out, std::int64_t in);
  // [out, in] cut along `out`.
  void column_parallel(const std::string& name, std::int64_t out, std::int64_t in);
  // [hidden, in] cut along `in`; its bias is whole on every rank and added after the sum.
  void row_parallel(const std::string& name, std::int64_t in, bool bias);

  const ModelSpec& m_;
  const ParallelSpec& p_;
  const Coordinate& c_;
  int unit_ = 0;
  std::vector<ParamSpec> table_;
};

}  // namespace mt
