#include "nn/attention_layer.h"

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "nn/head_norm.h"
#include "nn/norm.h"
#include "nn/overlapped_linear.h"
#include "nn/residual.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/rotary.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

struct Attention {
  Norm norm;
  AttentionSpec spec;
  Residual residual;
  Product qkv_product, proj_product;
  HeadNorm head_norm;
  int qkv, context, lse;  // saved members
  int unit;
  std::uint64_t name_hash;
  View rotary_table;
};

// Heads [first, first + count) of a fused row as [T, count, D].
View heads_of(View fused, std::int64_t first, std::int64_t count, std::int64_t head_dim) {
  View v = fused.slice(1, first * head_dim, (first + count) * head_dim);
  v.shape = {fused.dim(0), count, head_dim};
  v.strides = {fused.stride(0), head_dim, 1};
  return v;
}

struct Qkv {
  View q, k, v;
};

Qkv split(const Ctx& ctx, const Attention& a, View fused) {
  const std::int64_t tp = ctx.groups.tp->size(), h = a.spec.heads / tp;
  const std::int64_t g = std::max<std::int64_t>(1, a.spec.kv_heads / tp), d = a.spec.head_dim;
  return {heads_of(fused, 0, h, d), heads_of(fused, h, g, d), heads_of(fused, h + g, g, d)};
}

void turn(Ctx& ctx, const Attention& a, const Qkv& qkv, bool inverse) {
  if (!a.rotary_table) return;
  for (const View& x : {qkv.q, qkv.k})
    ops::rotary(ctx.stream, {.x = x,
                             .positions = ctx.tokens.positions,
                             .table = a.rotary_table,
                             .interleaved = a.spec.rotary.interleaved,
                             .inverse = inverse});
}

ops::AttentionShape shape_of(const Ctx& ctx, const Attention& a) {
  ops::AttentionShape s;
  s.cu_q = s.cu_k = ctx.tokens.cu_seqlens;
  s.lengths = ctx.tokens.lengths;
  s.mode = ctx.attention_mode;
  s.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.spec.head_dim)));
  if (ctx.mode == Mode::train && a.spec.dropout > 0) {
    s.dropout.p = static_cast<float>(a.spec.dropout);
    s.dropout.key = make_key(ctx.seed, Purpose::attention_dropout, a.name_hash);
    s.dropout.ordinals = ctx.tokens.ordinals;
    s.dropout.query_positions = s.dropout.key_positions = ctx.tokens.places;
    s.dropout.first_head = std::int64_t{a.spec.heads} / ctx.groups.tp->size() * ctx.groups.tp->rank();
  }
  return s;
}

// Append this pass's keys and values to the cache and attend over all of it.
void attend_cached(Ctx& ctx, const Attention& a, const Qkv& qkv, View out, View lse) {
  auto& cache = (*ctx.caches)[static_cast<std::size_t>(a.unit)];
  const std::int64_t past = cache.length, now = past + ctx.tokens.count();
  MT_CHECK(now <= cache.k.dim(0), "{} tokens in a cache of {}", now, cache.k.dim(0));
  ops::cast(ctx.stream, {.x = qkv.k, .out = cache.k.rows(past, now)});
  ops::cast(ctx.stream, {.x = qkv.v, .out = cache.v.rows(past, now)});
  cache.length = now;
  ops::AttentionShape s = shape_of(ctx, a);
  s.lengths = {};  // another number of keys every time, for which cuDNN would want another plan
  s.cu_k = allocate(ctx.scratch, DType::i32, {2});
  ops::fill(ctx.stream, s.cu_k.rows(0, 1), 0);
  ops::fill(ctx.stream, s.cu_k.rows(1, 2), static_cast<double>(now));
  ops::attention_forward(ctx.stream, {.q = qkv.q,
                                      .k = cache.k.rows(0, now),
                                      .v = cache.v.rows(0, now),
                                      .out = out,
                                      .lse = lse,
                                      .shape = s});
}

View member(const Flow& flow, int i) { return flow.saved->members[static_cast<std::size_t>(i)]; }

void project_qkv(Ctx& ctx, const Attention& a, Flow& f) {
  linear_of_gathered(ctx, f, a.qkv_product, f.full, member(f, a.qkv));
  head_norm_forward(ctx, a.head_norm, a.spec, member(f, a.qkv), *f.saved);
  turn(ctx, a, split(ctx, a, member(f, a.qkv)), false);
}

void attend(Ctx& ctx, const Attention& a, Flow& f) {
  const Qkv qkv = split(ctx, a, member(f, a.qkv));
  const View out = heads_of(member(f, a.context), 0, qkv.q.dim(1), a.spec.head_dim);
  if (ctx.mode == Mode::generate)
    attend_cached(ctx, a, qkv, out, member(f, a.lse));
  else
    ops::attention_forward(ctx.stream, {.q = qkv.q,
                                        .k = qkv.k,
                                        .v = qkv.v,
                                        .out = out,
                                        .lse = member(f, a.lse),
                                        .shape = shape_of(ctx, a)});
}

void project_out(Ctx& ctx, const Attention& a, Flow& f) { linear_to_sum(ctx, f, a.proj_product, member(f, a.context)); }

void core_backward(Ctx& ctx, const Attention& a, Flow& f) {
  const View fused = member(f, a.qkv), context = member(f, a.context);
  const View dcontext = allocate(ctx.scratch, context.dtype, context.shape);
  linear_backward_input_of_gathered(ctx, f, a.proj_product, f.dz_full, dcontext);
  f.dinner = allocate(*f.kept, fused.dtype, fused.shape);
  const Qkv qkv = split(ctx, a, fused), d = split(ctx, a, f.dinner);
  const std::int64_t h = qkv.q.dim(1), dim = a.spec.head_dim;
  ops::attention_backward(ctx.stream, {.q = qkv.q,
                                       .k = qkv.k,
                                       .v = qkv.v,
                                       .out = heads_of(context, 0, h, dim),
                                       .lse = member(f, a.lse),
                                       .dout = heads_of(dcontext, 0, h, dim),
                                       .dq = d.q,
                                       .dk = d.k,
                                       .dv = d.v,
                                       .shape = shape_of(ctx, a)});
  turn(ctx, a, d, true);
  head_norm_backward(ctx, a.head_norm, a.spec, f.dinner, *f.saved);
}

}  // namespace

SubLayer attention_layer(const ParameterStore& params, const Row& row, int unit, const SavedTable& saved,
                         View rotary_table) {
  SubLayer s;
  const std::string prefix = fmt::format("decoder.layers.{}.", row.layer);
  s.name = prefix + "self_attention";
  s.unit = unit;
  s.weight_units = {unit};
  s.saved = saved.tensors;
  s.again = saved.again;
  s.fp8 = row.fp8;
  const auto p = [&](const char* name) { return require_param(params, s.name + name); };
  Attention a{make_norm(params, s, row.norm, prefix + "input_layernorm"),
              row.attention,
              {row.residual_dropout, xxh3(s.name), row.attention.proj_bias ? p(".linear_proj.bias") : -1},
              {p(".linear_qkv.weight"), row.attention.qkv_bias ? p(".linear_qkv.bias") : -1, 0, row.fp8, unit, 0},
              {p(".linear_proj.weight"), -1, 0, row.fp8, unit, 1},
              make_head_norm(params, s, row),
              s.member("qkv"),
              s.member("context"),
              s.member("lse"),
              unit,
              xxh3(s.name),
              rotary_table};
  using K = Segment::Kind;
  s.forward = {
      {K::compute, "norm", [a](Ctx& c, Flow& f) { norm_forward(c, a.norm, *f.saved); }},
      {K::start, "gather",
       [a](Ctx& c, Flow& f) { start_gather_for(c, f, a.qkv_product, member(f, a.norm.normed), f.full); }},
      {K::await, "gather", await_gather},
      {K::compute, "qkv", [a](Ctx& c, Flow& f) { project_qkv(c, a, f); }},
      {K::compute, "attention", [a](Ctx& c, Flow& f) { attend(c, a, f); }},
      {K::compute, "proj", [a](Ctx& c, Flow& f) { project_out(c, a, f); }},
      {K::start, "sum", [](Ctx& c, Flow& f) { start_sum(c, f, f.partial, f.partial); }},
      {K::await, "sum", await_sum},
      {K::compute, "residual", [a](Ctx& c, Flow& f) { residual_forward(c, a.residual, f); }},
  };
  s.backward_input = {
      {K::compute, "residual", [a](Ctx& c, Flow& f) { residual_backward(c, a.residual, f); }},
      {K::start, "gather", [a](Ctx& c, Flow& f) { start_gather_kept_for(c, f, a.proj_product, f.dz, f.dz_full); }},
      {K::await, "gather", await_gather},
      {K::compute, "attention", [a](Ctx& c, Flow& f) { core_backward(c, a, f); }},
      {K::compute, "qkv", [a](Ctx& c, Flow& f) { linear_backward_input_to_sum(c, f, a.qkv_product, f.dinner); }},
      {K::start, "sum", [](Ctx& c, Flow& f) { start_sum(c, f, f.partial, f.partial); }},
      {K::await, "sum", await_sum},
      {K::compute, "norm", [a](Ctx& c, Flow& f) { norm_backward(c, a.norm, *f.saved, f.partial, f.dy, f.dx); }},
  };
  s.backward_weight = {
      {K::start, "gather", [a](Ctx& c, Flow& f) { start_gather(c, f, member(f, a.norm.normed), f.full); }},
      {K::compute, "proj",
       [a](Ctx& c, Flow& f) { linear_backward_weight(c, f, a.proj_product, f.dz_full, member(f, a.context)); }},
      {K::await, "gather", await_gather},
      {K::compute, "qkv",
       [a](Ctx& c, Flow& f) { linear_backward_weight(c, f, a.qkv_product, f.dinner, f.full); }},
  };
  take_recompute(s, "qkv", "attention");
  return s;
}

}  // namespace mt
