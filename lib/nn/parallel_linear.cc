#include "nn/parallel_linear.h"

#include "base/error.h"
#include "ops/arithmetic.h"
#include "ops/fp8.h"
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

// The direction a product sums over an operand in: along its rows' elements, or down its columns.
enum class Sum : std::uint8_t { along, down };

// How an operand of an fp8 product is rounded, with memory for its copy. A scale of the whole tensor is the same on all tp
// ranks.
ops::Fp8RoundArgs rounded(Ctx& ctx, const Product& p, Fp8Operand operand, View x, Sum sum) {
  const Fp8Spec& spec = ctx.fp8->spec();
  ops::Fp8RoundArgs args;
  args.x = x;
  args.out = allocate(ctx.scratch, x.dtype, x.shape);
  args.format = operand == Fp8Operand::dy && spec.hybrid ? DType::e5m2 : DType::e4m3;
  args.margin = spec.margin;
  if (spec.recipe == Fp8Spec::Recipe::delayed) args.amax = ctx.fp8->used(p.unit, p.place, operand);
  if (spec.recipe == Fp8Spec::Recipe::tensorwise) {
    args.amax = allocate(ctx.scratch, DType::f32, {1});
    ops::fill(ctx.stream, args.amax, 0);
    ops::abs_max(ctx.stream, {.x = x, .out = args.amax});
    if (ctx.groups.tp->size() > 1) ctx.groups.tp->all_reduce(ctx.stream, args.amax, Reduce::max).wait(ctx.stream);
  }
  args.block_rows = operand == Fp8Operand::weight || sum == Sum::down ? 128 : 1;
  args.block_columns = operand == Fp8Operand::weight || sum == Sum::along ? 128 : 1;
  return args;
}

void note(Ctx& ctx, const Product& p, Fp8Operand operand, View x) {
  if (ctx.records && ctx.fp8->spec().recipe == Fp8Spec::Recipe::delayed)
    ops::abs_max(ctx.stream, {.x = x, .out = ctx.fp8->seen(p.unit, p.place, operand)});
}

bool is_fp8(const Ctx& ctx, const Product& p) { return p.fp8 && ctx.fp8 != nullptr; }

}  // namespace

void linear(Ctx& ctx, const Product& p, View x, View y) {
  const ArenaScope scope(ctx.scratch);
  const View weight = ctx.params.weight(p.weight), bias = p.bias >= 0 ? ctx.params.weight(p.bias) : View();
  if (!is_fp8(ctx, p))
    return ops::gemm(ctx.stream, {.a = x, .b = weight, .c = y, .trans_b = true, .bias = bias, .mode = ctx.gemm_mode});
  note(ctx, p, Fp8Operand::x, x);
  note(ctx, p, Fp8Operand::weight, weight);
  ops::fp8_gemm(ctx.stream, {.a = rounded(ctx, p, Fp8Operand::x, x, Sum::along),
                             .b = rounded(ctx, p, Fp8Operand::weight, weight, Sum::along),
                             .c = y,
                             .bias = bias,
                             .trans_b = true,
                             .mode = ctx.gemm_mode});
}

void linear_backward_input(Ctx& ctx, const Product& p, View dy, View dx) {
  const ArenaScope scope(ctx.scratch);
  const View weight = ctx.params.weight(p.weight);
  if (!is_fp8(ctx, p)) return ops::gemm(ctx.stream, {.a = dy, .b = weight, .c = dx, .mode = ctx.gemm_mode});
  note(ctx, p, Fp8Operand::dy, dy);
  ops::fp8_gemm(ctx.stream, {.a = rounded(ctx, p, Fp8Operand::dy, dy, Sum::along),
                             .b = rounded(ctx, p, Fp8Operand::weight, weight, Sum::down),
                             .c = dx,
                             .mode = ctx.gemm_mode});
}

void linear_backward_weight(Ctx& ctx, const Product& p, View dy, View x) {
  const ArenaScope scope(ctx.scratch);
  if (p.bias >= 0) ops::column_sum(ctx.stream, {.x = dy, .out = ctx.params.grad(p.bias)});
  const View dw = ctx.params.grad(p.weight, p.slot);
  if (!is_fp8(ctx, p) || !ctx.fp8->spec().weight_gradients)
    return ops::gemm(
        ctx.stream, {.a = dy, .b = x, .c = dw, .trans_a = true, .accumulate = true, .mode = ctx.gemm_mode});
  ops::fp8_gemm(ctx.stream, {.a = rounded(ctx, p, Fp8Operand::dy, dy, Sum::down),
                             .b = rounded(ctx, p, Fp8Operand::x, x, Sum::down),
                             .c = dw,
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
