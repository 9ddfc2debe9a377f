#include "nn/parallel_linear.h"

#include "base/error.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

bool sharded(const Ctx& ctx) {
  return ctx.groups.placement.spec.sequence_parallel && ctx.groups.tp->size() > 1;
}

}  // namespace

void start_gather(Ctx& ctx, Flow& flow, View shard, View& full) {
  full = shard;
  if (!sharded(ctx)) return;
  full = allocate(ctx.scratch, shard.dtype, {shard.dim(0) * ctx.groups.tp->size(), shard.dim(1)});
  flow.pending = ctx.groups.tp->all_gather(ctx.stream, shard, full);
}

void start_sum(Ctx& ctx, Flow& flow, View partial, View& sum) {
  sum = partial;
  if (ctx.groups.tp->size() == 1) return;
  if (!sharded(ctx)) {
    flow.pending = ctx.groups.tp->all_reduce(ctx.stream, partial, Reduce::sum);
    return;
  }
  sum = allocate(ctx.scratch, partial.dtype, {partial.dim(0) / ctx.groups.tp->size(), partial.dim(1)});
  flow.pending = ctx.groups.tp->reduce_scatter(ctx.stream, partial, sum, Reduce::sum);
}

void await_exchange(Ctx& ctx, Flow& flow) {
  flow.pending.wait(ctx.stream);
  flow.pending = Handle();
}

void linear(Ctx& ctx, View x, int weight, int bias, View y) {
  ops::gemm(ctx.stream, {.a = x,
                         .b = ctx.params.weight(weight),
                         .c = y,
                         .trans_b = true,
                         .bias = bias >= 0 ? ctx.params.weight(bias) : View()});
}

void linear_backward_input(Ctx& ctx, View dy, int weight, View dx) {
  ops::gemm(ctx.stream, {.a = dy, .b = ctx.params.weight(weight), .c = dx});
}

void linear_backward_weight(Ctx& ctx, View dy, View x, int weight, int bias, int slot) {
  ops::gemm(ctx.stream,
            {.a = dy, .b = x, .c = ctx.params.grad(weight, slot), .trans_a = true, .accumulate = true});
  if (bias >= 0) ops::column_sum(ctx.stream, {.x = dy, .out = ctx.params.grad(bias)});
}

int require_param(const ParameterStore& params, const std::string& name) {
  const int p = params.find(name);
  MT_CHECK(p >= 0, "no parameter {}", name);
  return p;
}

}  // namespace mt
