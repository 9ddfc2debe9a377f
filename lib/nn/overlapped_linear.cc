#include "nn/overlapped_linear.h"

#include <algorithm>
#include <functional>

#include "nn/residual.h"
#include "ops/gemm.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

bool can_cut(const Ctx& ctx, const Product& p) { return is_sharded(ctx) && !(p.fp8 && ctx.fp8 != nullptr); }

// The rank whose shard comes with the s-th exchange; this one's for 0.
std::int64_t source_of(const Communicator& tp, std::int64_t s) { return (tp.rank() + tp.size() - s) % tp.size(); }

View shard_of(View full, const Communicator& tp, std::int64_t rank) {
  const std::int64_t rows = full.dim(0) / tp.size();
  return full.rows(rank * rows, (rank + 1) * rows);
}

void gather_in_pieces(Ctx& ctx, Flow& flow, Arena& arena, View shard, View& full) {
  Communicator& tp = *ctx.groups.tp;
  const auto n = static_cast<std::size_t>(tp.size()), me = static_cast<std::size_t>(tp.rank());
  full = allocate(arena, shard.dtype, {shard.dim(0) * tp.size(), shard.dim(1)});
  copy_bytes(ctx.stream, shard_of(full, tp, tp.rank()).data, shard.data, shard.bytes());
  for (std::size_t s = 1; s < n; ++s) {
    const auto from = static_cast<std::size_t>(source_of(tp, static_cast<std::int64_t>(s)));
    std::vector<std::int64_t> sent(n, 0), received(n, 0);
    sent[(me + s) % n] = received[from] = shard.dim(0);
    flow.gathering.push_back(
        tp.all_to_all_v(ctx.stream, shard, sent, shard_of(full, tp, static_cast<std::int64_t>(from)), received));
  }
  flow.gathers_in_pieces = true;
}

// `product` of each shard of `full` when it is there, into the same rows of `out`.
void as_it_comes(Ctx& ctx, Flow& flow, View full, View out, const std::function<void(View rows, View out)>& product) {
  const Communicator& tp = *ctx.groups.tp;
  for (std::int64_t s = 0; s < tp.size(); ++s) {
    if (s > 0) flow.gathering[static_cast<std::size_t>(s - 1)].wait(ctx.stream);
    const std::int64_t rank = source_of(tp, s);
    product(shard_of(full, tp, rank), shard_of(out, tp, rank));
  }
  flow.gathering.clear();
  flow.gathers_in_pieces = false;
}

// A matrix as n of it: x's shards, or the weight n times.
View batch(View x, std::int64_t n, std::int64_t rows, std::int64_t stride) {
  x.shape = {n, rows, x.dim(1)};
  x.strides = {stride, x.stride(0), x.stride(1)};
  return x;
}

void sum_in_pieces(Ctx& ctx, Flow& flow, View x, View weight, bool transposed) {
  Communicator& tp = *ctx.groups.tp;
  const std::int64_t n = tp.size(), rows = x.dim(0) / n, width = flow.partial.dim(1);
  const std::int64_t pieces = std::min<std::int64_t>(kSumPieces, rows);
  flow.sum = allocate(ctx.scratch, flow.partial.dtype, {rows, width});
  const View shards = batch(x, n, rows, rows * x.stride(0)), weights = batch(weight, n, weight.dim(0), 0);
  for (std::int64_t j = 0; j < pieces; ++j) {
    const std::int64_t lo = rows * j / pieces, hi = rows * (j + 1) / pieces;
    const View piece = flow.partial.rows(n * lo, n * hi);
    ops::gemm(ctx.stream, {.a = shards.slice(1, lo, hi),
                           .b = weights,
                           .c = piece.reshape({n, hi - lo, width}),
                           .trans_b = transposed,
                           .mode = ctx.gemm_mode});
    flow.summing.push_back(tp.reduce_scatter(ctx.stream, piece, flow.sum.rows(lo, hi), Reduce::sum));
  }
}

View partial_of(Ctx& ctx, View x, std::int64_t width) {
  return allocate(ctx.scratch, ctx.params.compute_dtype(), {x.dim(0), width});
}

}  // namespace

void start_gather_for(Ctx& ctx, Flow& flow, const Product& p, View shard, View& full) {
  if (!ctx.tp_overlap.gather || !can_cut(ctx, p)) return start_gather(ctx, flow, shard, full);
  gather_in_pieces(ctx, flow, ctx.scratch, shard, full);
}

void start_gather_kept_for(Ctx& ctx, Flow& flow, const Product& p, View shard, View& full) {
  if (!ctx.tp_overlap.gather || !can_cut(ctx, p)) return start_gather_kept(ctx, flow, shard, full);
  gather_in_pieces(ctx, flow, *flow.kept, shard, full);
}

void linear_of_gathered(Ctx& ctx, Flow& flow, const Product& p, View full, View y) {
  if (!flow.gathers_in_pieces) return linear(ctx, p, full, y);
  as_it_comes(ctx, flow, full, y, [&](View rows, View out) { linear(ctx, p, rows, out); });
}

void linear_backward_input_of_gathered(Ctx& ctx, Flow& flow, const Product& p, View full, View dx) {
  if (!flow.gathers_in_pieces) return linear_backward_input(ctx, flow, p, full, dx);
  as_it_comes(ctx, flow, full, dx, [&](View rows, View out) { linear_backward_input(ctx, flow, p, rows, out); });
}

void linear_to_sum(Ctx& ctx, Flow& flow, const Product& p, View x) {
  const View weight = ctx.params.weight(p.weight);
  flow.partial = partial_of(ctx, x, weight.dim(0));
  if (!ctx.tp_overlap.sum || !can_cut(ctx, p) || p.bias >= 0) return linear(ctx, p, x, flow.partial);
  sum_in_pieces(ctx, flow, x, weight, true);
}

void linear_backward_input_to_sum(Ctx& ctx, Flow& flow, const Product& p, View dy) {
  const View weight = ctx.params.weight(p.weight);
  flow.partial = partial_of(ctx, dy, weight.dim(1));
  if (!ctx.tp_overlap.sum_dgrad || !can_cut(ctx, p)) return linear_backward_input(ctx, flow, p, dy, flow.partial);
  sum_in_pieces(ctx, flow, dy, weight, false);
}

}  // namespace mt
