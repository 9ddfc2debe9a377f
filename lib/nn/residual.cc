#include "nn/residual.h"

#include "nn/parallel_linear.h"
#include "ops/bias_dropout_add.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

ops::Dropout dropout_of(const Ctx& ctx, const Residual& r) {
  ops::Dropout d;
  if (ctx.mode != Mode::train || r.dropout <= 0) return d;
  d.p = static_cast<float>(r.dropout);
  d.key = make_key(ctx.seed, Purpose::hidden_dropout, r.name_hash);
  d.ordinals = sequence_shard(ctx, ctx.tokens.ordinals);
  d.positions = sequence_shard(ctx, ctx.tokens.places);
  return d;
}

}  // namespace

void residual_forward(Ctx& ctx, const Residual& r, Flow& f) {
  ops::bias_dropout_add_forward(ctx.stream, {.x = f.partial,
                                             .bias = r.bias >= 0 ? ctx.params.weight(r.bias) : View(),
                                             .residual = f.x,
                                             .out = f.y,
                                             .dropout = dropout_of(ctx, r)});
}

void residual_backward(Ctx& ctx, const Residual& r, Flow& f) {
  const auto dropout = dropout_of(ctx, r);
  f.dz = f.dy;
  const bool copies = dropout.p > 0 || f.dy.dtype != ctx.params.compute_dtype();
  if (copies) f.dz = allocate(*f.kept, ctx.params.compute_dtype(), f.dy.shape);
  if (!copies && r.bias < 0) return;
  ops::bias_dropout_add_backward(ctx.stream, {.dout = f.dy,
                                              .dx = f.dz,
                                              .dbias = r.bias >= 0 ? ctx.params.grad(r.bias) : View(),
                                              .dropout = dropout});
}

void start_gather_kept(Ctx& ctx, Flow& f, View shard, View& full) {
  full = shard;
  auto& tp = *ctx.groups.tp;
  if (!is_sharded(ctx)) return;
  full = allocate(*f.kept, shard.dtype, {shard.dim(0) * tp.size(), shard.dim(1)});
  f.gathering.push_back(tp.all_gather(ctx.stream, shard, full));
}

}  // namespace mt
