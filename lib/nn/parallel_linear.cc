#include "nn/parallel_linear.h"

#include "base/error.h"
#include "nn/fp8_product.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "tensor/tensor.h"

namespace mt {

bool is_sharded(const Ctx& ctx) {
  return ctx.groups.placement.spec.sequence_parallel && ctx.groups.tp->size() > 1;
}

void start_gather(Ctx& ctx, Flow& flow, View shard, View& full) {
  full = shard;
  if (!is_sharded(ctx)) return;
  full = allocate(ctx.scratch, shard.dtype, {shard.dim(0) * ctx.groups.tp->size(), shard.dim(1)});
  flow.gathering.push_back(ctx.groups.tp->all_gather(ctx.stream, shard, full));
}

void start_sum(Ctx& ctx, Flow& flow, View partial, View& sum) {
  if (!flow.summing.empty()) {
    sum = flow.sum;
    return;
  }
  sum = partial;
  if (ctx.groups.tp->size() == 1) return;
  if (!is_sharded(ctx)) {
    flow.summing.push_back(ctx.groups.tp->all_reduce(ctx.stream, partial, Reduce::sum));
    return;
  }
  sum = allocate(ctx.scratch, partial.dtype, {partial.dim(0) / ctx.groups.tp->size(), partial.dim(1)});
  flow.summing.push_back(ctx.groups.tp->reduce_scatter(ctx.stream, partial, sum, Reduce::sum));
}

namespace {

void await(Ctx& ctx, std::vector<Handle>& handles) {
  for (Handle& h : handles) h.wait(ctx.stream);
  handles.clear();
}

}  // namespace

void await_gather(Ctx& ctx, Flow& flow) {
  if (!flow.gathers_in_pieces) await(ctx, flow.gathering);
}

void await_sum(Ctx& ctx, Flow& flow) { await(ctx, flow.summing); }

void await_exchange(Ctx& ctx, Flow& flow) {
  flow.pending.wait(ctx.stream);
  flow.pending = Handle();
}

namespace {

bool is_fp8(const Ctx& ctx, const Product& p) { return p.fp8 && ctx.fp8 != nullptr; }

}  // namespace

void linear(Ctx& ctx, const Product& p, View x, View y) {
  if (is_fp8(ctx, p)) return fp8_linear(ctx, p, x, y);
  const View bias = p.bias >= 0 ? ctx.params.weight(p.bias) : View();
  ops::gemm(ctx.stream, {.a = x,
                         .b = ctx.params.weight(p.weight),
                         .c = y,
                         .trans_b = true,
                         .bias = bias,
                         .mode = ctx.gemm_mode});
}

void linear_backward_input(Ctx& ctx, Flow& flow, const Product& p, View dy, View dx) {
  if (is_fp8(ctx, p)) return fp8_backward_input(ctx, flow, p, dy, dx);
  ops::gemm(ctx.stream, {.a = dy, .b = ctx.params.weight(p.weight), .c = dx, .mode = ctx.gemm_mode});
}

void linear_backward_weight(Ctx& ctx, Flow& flow, const Product& p, View dy, View x) {
  if (p.bias >= 0) ops::column_sum(ctx.stream, {.x = dy, .out = ctx.params.grad(p.bias)});
  if (is_fp8(ctx, p) && ctx.fp8->spec().weight_gradients) return fp8_backward_weight(ctx, flow, p, dy, x);
  ops::gemm(ctx.stream, {.a = dy,
                         .b = x,
                         .c = ctx.params.grad(p.weight, p.slot),
                         .trans_a = true,
                         .accumulate = true,
                         .mode = ctx.gemm_mode});
}

int require_param(const ParameterStore& params, const std::string& name) {
  const int p = params.find(name);
  MT_CHECK(p >= 0, "no parameter {}", name);
  return p;
}

}  // namespace mt
