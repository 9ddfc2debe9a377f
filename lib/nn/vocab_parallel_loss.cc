#include "nn/vocab_parallel_loss.h"

#include "nn/norm.h"
#include "nn/overlapped_linear.h"
#include "nn/residual.h"
#include "ops/cross_entropy.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

struct Head {
  Norm norm;
  Product product;
  int logits;  // saved member
  HeadShard shard;
};

View member(const Flow& flow, int i) { return flow.saved->members[static_cast<std::size_t>(i)]; }

void compute_logits(Ctx& ctx, const Head& h, Flow& f) {
  linear_of_gathered(ctx, f, h.product, f.full, member(f, h.logits));
  if (ctx.mode == Mode::generate) ctx.last_logits = member(f, h.logits);
}

// statistics: f32 [3, T], rows max, sum of exp, target logit.
void local_max(Ctx& ctx, const Head& h, Flow& f) {
  if (ctx.mode == Mode::generate) return;
  f.statistics = allocate(ctx.scratch, DType::f32, {3, ctx.tokens.count()});
  const View row_max = f.statistics.rows(0, 1).reshape({ctx.tokens.count()});
  ops::cross_entropy_max(
      ctx.stream, {.logits = member(f, h.logits), .columns = h.shard.true_columns, .row_max = row_max});
  if (ctx.groups.tp->size() > 1) f.pending = ctx.groups.tp->all_reduce(ctx.stream, row_max, Reduce::max);
}

struct Rows {
  View max, sum, target;
};
Rows rows_of(const Flow& f) {
  const auto row = [&](std::int64_t i) { return f.statistics.rows(i, i + 1).reshape({f.statistics.dim(1)}); };
  return {row(0), row(1), row(2)};
}

void local_sum(Ctx& ctx, const Head& h, Flow& f) {
  if (ctx.mode == Mode::generate) return;
  const Rows r = rows_of(f);
  ops::cross_entropy_sum(ctx.stream, {.logits = member(f, h.logits),
                                      .columns = h.shard.true_columns,
                                      .row_max = r.max,
                                      .targets = ctx.tokens.labels,
                                      .first_id = h.shard.first_id,
                                      .sum_exp = r.sum,
                                      .target_logit = r.target});
  if (ctx.groups.tp->size() > 1)
    f.pending = ctx.groups.tp->all_reduce(ctx.stream, f.statistics.rows(1, 3), Reduce::sum);
}

void loss(Ctx& ctx, const Head& h, Flow& f) {
  if (ctx.mode == Mode::generate) return;
  const Rows r = rows_of(f);
  ops::cross_entropy_loss(ctx.stream, {.logits = member(f, h.logits),
                                       .columns = h.shard.true_columns,
                                       .row_max = r.max,
                                       .sum_exp = r.sum,
                                       .target_logit = r.target,
                                       .targets = ctx.tokens.labels,
                                       .first_id = h.shard.first_id,
                                       .loss = ctx.token_loss,
                                       .token_scale = ctx.tokens.loss_scale,
                                       .gradient = ctx.mode == Mode::train});
}

}  // namespace

SubLayer vocab_parallel_loss(const ParameterStore& params, const ModelSpec& model, int unit,
                             std::vector<SavedTensor> saved, HeadShard shard) {
  SubLayer s;
  s.name = "output_layer";
  s.unit = unit;
  s.weight_units = {unit};
  s.saved = std::move(saved);
  const int own = params.find("output_layer.weight");
  const int weight = own >= 0 ? own : require_param(params, "embedding.word_embeddings.weight");
  if (own < 0) s.weight_units.push_back(params.spec(weight).unit);
  Head h{make_norm(params, s, model.final_norm, "decoder.final_layernorm"),
         {weight, -1, params.spec(weight).grad_slots - 1}, s.member("logits"), shard};
  using K = Segment::Kind;
  s.forward = {
      {K::compute, "norm", [h](Ctx& c, Flow& f) { norm_forward(c, h.norm, *f.saved); }},
      {K::start, "gather",
       [h](Ctx& c, Flow& f) { start_gather_for(c, f, h.product, member(f, h.norm.normed), f.full); }},
      {K::await, "gather", await_gather},
      {K::compute, "logits", [h](Ctx& c, Flow& f) { compute_logits(c, h, f); }},
      {K::start, "max", [h](Ctx& c, Flow& f) { local_max(c, h, f); }},
      {K::await, "max", await_exchange},
      {K::start, "sum", [h](Ctx& c, Flow& f) { local_sum(c, h, f); }},
      {K::await, "sum", await_exchange},
      {K::compute, "loss", [h](Ctx& c, Flow& f) { loss(c, h, f); }},
  };
  s.backward_input = {
      {K::compute, "logits",
       [h](Ctx& c, Flow& f) { linear_backward_input_to_sum(c, f, h.product, member(f, h.logits)); }},
      {K::start, "sum", [](Ctx& c, Flow& f) { start_sum(c, f, f.partial, f.partial); }},
      {K::await, "sum", await_sum},
      {K::compute, "norm", [h](Ctx& c, Flow& f) { norm_backward(c, h.norm, *f.saved, f.partial, View(), f.dx); }},
  };
  s.backward_weight = {
      {K::start, "gather", [h](Ctx& c, Flow& f) { start_gather(c, f, member(f, h.norm.normed), f.full); }},
      {K::await, "gather", await_gather},
      {K::compute, "logits",
       [h](Ctx& c, Flow& f) { linear_backward_weight(c, f, h.product, member(f, h.logits), f.full); }},
  };
  return s;
}

}  // namespace mt
