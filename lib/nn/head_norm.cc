#include "nn/head_norm.h"

#include <algorithm>

#include "nn/parallel_linear.h"
#include "ops/arithmetic.h"
#include "ops/rms_norm.h"

namespace mt {

namespace {

View member(const Saved& saved, int i) { return saved.members[static_cast<std::size_t>(i)]; }

// A head of a row as [T, D], and whose weight norms it.
struct Head {
  std::int64_t first, last;
  int weight;
  std::int64_t at;
};

template <class Each>
void for_heads(const Ctx& ctx, const HeadNorm& n, const AttentionSpec& spec, Each each) {
  const std::int64_t tp = ctx.groups.tp->size(), h = spec.heads / tp, d = spec.head_dim;
  const std::int64_t g = std::max<std::int64_t>(1, spec.kv_heads / tp);
  for (std::int64_t i = 0; i < h + g; ++i) each(Head{i * d, (i + 1) * d, i < h ? n.q_weight : n.k_weight, i});
}

}  // namespace

HeadNorm make_head_norm(const ParameterStore& params, const SubLayer& layer, const Row& row) {
  HeadNorm n;
  if (!row.attention.qk_norm) return n;
  n.q_weight = require_param(params, layer.name + ".q_layernorm.weight");
  n.k_weight = require_param(params, layer.name + ".k_layernorm.weight");
  n.qk = layer.member("qk");
  n.rstd = layer.member("qk_rstd");
  n.epsilon = static_cast<float>(row.norm.eps);
  return n;
}

void head_norm_forward(Ctx& ctx, const HeadNorm& n, const AttentionSpec& spec, View fused, Saved& saved) {
  if (!n.on()) return;
  const View qk = member(saved, n.qk), rstd = member(saved, n.rstd);
  ops::cast(ctx.stream, {.x = fused.slice(1, 0, qk.dim(1)), .out = qk});
  for_heads(ctx, n, spec, [&](const Head& head) {
    ops::rms_norm_forward(ctx.stream, {.x = qk.slice(1, head.first, head.last),
                                       .weight = ctx.params.weight(head.weight),
                                       .out = fused.slice(1, head.first, head.last),
                                       .rstd = rstd.rows(head.at, head.at + 1).reshape({qk.dim(0)}),
                                       .epsilon = n.epsilon});
  });
}

void head_norm_backward(Ctx& ctx, const HeadNorm& n, const AttentionSpec& spec, View dfused, const Saved& saved) {
  if (!n.on()) return;
  const View qk = member(saved, n.qk), rstd = member(saved, n.rstd);
  for_heads(ctx, n, spec, [&](const Head& head) {
    const View d = dfused.slice(1, head.first, head.last);
    ops::rms_norm_backward(ctx.stream, {.dout = d,
                                        .x = qk.slice(1, head.first, head.last),
                                        .weight = ctx.params.weight(head.weight),
                                        .rstd = rstd.rows(head.at, head.at + 1).reshape({qk.dim(0)}),
                                        .dx = d,
                                        .dweight = ctx.params.grad(head.weight)});
  });
}

}  // namespace mt
