#include "nn/vocab_parallel_embedding.h"

#include "base/hash.h"
#include "nn/parallel_linear.h"
#include "nn/residual.h"
#include "ops/arithmetic.h"
#include "ops/bias_dropout_add.h"
#include "ops/embedding.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

struct Embedding {
  int words, positions;
  std::int64_t first_id, hidden;
  double dropout;
  std::uint64_t name_hash;
};

ops::Dropout dropout_of(const Ctx& ctx, const Embedding& e) {
  ops::Dropout d;
  if (ctx.mode != Mode::train || e.dropout <= 0) return d;
  d.p = static_cast<float>(e.dropout);
  d.key = make_key(ctx.seed, Purpose::hidden_dropout, e.name_hash);
  d.ordinals = sequence_shard(ctx, ctx.tokens.ordinals);
  d.positions = sequence_shard(ctx, ctx.tokens.places);
  return d;
}

void look_up(Ctx& ctx, const Embedding& e, Flow& f) {
  f.partial = allocate(ctx.scratch, ctx.params.compute_dtype(), {ctx.tokens.count(), e.hidden});
  ops::embedding_forward(ctx.stream, {.ids = ctx.tokens.ids,
                                      .weight = ctx.params.weight(e.words),
                                      .out = f.partial,
                                      .first_id = e.first_id});
}

void finish(Ctx& ctx, const Embedding& e, Flow& f) {
  View sum = f.partial;
  if (e.positions >= 0) {
    const View table = ctx.params.weight(e.positions);
    const View rows = allocate(ctx.scratch, sum.dtype, sum.shape);
    ops::embedding_forward(
        ctx.stream, {.ids = sequence_shard(ctx, ctx.tokens.positions), .weight = table, .out = rows});
    ops::add(ctx.stream, {.a = sum, .b = rows, .out = sum});
  }
  ops::bias_dropout_add_forward(ctx.stream, {.x = sum, .out = f.y, .dropout = dropout_of(ctx, e)});
}

void undo_dropout(Ctx& ctx, const Embedding& e, Flow& f) {
  f.dz = f.dy;
  const auto dropout = dropout_of(ctx, e);
  if (dropout.p <= 0 && f.dy.dtype == ctx.params.compute_dtype()) return;
  f.dz = allocate(*f.kept, ctx.params.compute_dtype(), f.dy.shape);
  ops::bias_dropout_add_backward(ctx.stream, {.dout = f.dy, .dx = f.dz, .dropout = dropout});
}

void add_gradients(Ctx& ctx, const Embedding& e, Flow& f) {
  ops::embedding_backward(ctx.stream, {.ids = ctx.tokens.ids,
                                       .dout = f.dz_full,
                                       .dweight = ctx.params.grad(e.words, 0),
                                       .first_id = e.first_id});
  if (e.positions < 0) return;
  ops::embedding_backward(ctx.stream, {.ids = sequence_shard(ctx, ctx.tokens.positions),
                                       .dout = f.dz,
                                       .dweight = ctx.params.grad(e.positions)});
}

}  // namespace

SubLayer vocab_parallel_embedding(const ParameterStore& params, const ModelSpec& model, std::int64_t first_id) {
  SubLayer s;
  s.name = "embedding";
  s.weight_units = {0};
  Embedding e{require_param(params, "embedding.word_embeddings.weight"),
              params.find("embedding.position_embeddings.weight"),
              first_id,
              model.hidden,
              model.embedding_dropout,
              xxh3(s.name)};
  using K = Segment::Kind;
  s.forward = {
      {K::compute, "lookup", [e](Ctx& c, Flow& f) { look_up(c, e, f); }},
      {K::start, "sum", [](Ctx& c, Flow& f) { start_sum(c, f, f.partial, f.partial); }},
      {K::await, "sum", await_sum},
      {K::compute, "positions", [e](Ctx& c, Flow& f) { finish(c, e, f); }},
  };
  s.backward_input = {
      {K::compute, "dropout", [e](Ctx& c, Flow& f) { undo_dropout(c, e, f); }},
      {K::start, "gather", [](Ctx& c, Flow& f) { start_gather_kept(c, f, f.dz, f.dz_full); }},
      {K::await, "gather", await_gather},
  };
  s.backward_weight = {{K::compute, "scatter", [e](Ctx& c, Flow& f) { add_gradients(c, e, f); }}};
  return s;
}

}  // namespace mt
