#include "nn/norm.h"

#include "nn/parallel_linear.h"
#include "ops/layer_norm.h"
#include "ops/rms_norm.h"

namespace mt {

Norm make_norm(const ParameterStore& params, const SubLayer& layer, const NormSpec& spec, const std::string& prefix) {
  Norm n;
  n.spec = spec;
  n.weight = require_param(params, prefix + ".weight");
  if (spec.kind == NormKind::layer_norm) n.bias = require_param(params, prefix + ".bias");
  n.x = layer.member("x");
  n.normed = layer.member("normed");
  n.mean = layer.member("mean");
  n.rstd = layer.member("rstd");
  return n;
}

namespace {

View at(const Saved& saved, int i) { return i < 0 ? View() : saved.members[static_cast<std::size_t>(i)]; }

}  // namespace

void norm_forward(Ctx& ctx, const Norm& n, Saved& saved) {
  const auto eps = static_cast<float>(n.spec.eps);
  if (n.spec.kind == NormKind::rms_norm)
    ops::rms_norm_forward(ctx.stream, {.x = at(saved, n.x),
                                       .weight = ctx.params.weight(n.weight),
                                       .out = at(saved, n.normed),
                                       .rstd = at(saved, n.rstd),
                                       .epsilon = eps});
  else
    ops::layer_norm_forward(ctx.stream, {.x = at(saved, n.x),
                                         .weight = ctx.params.weight(n.weight),
                                         .bias = ctx.params.weight(n.bias),
                                         .out = at(saved, n.normed),
                                         .mean = at(saved, n.mean),
                                         .rstd = at(saved, n.rstd),
                                         .epsilon = eps});
}

void norm_backward(Ctx& ctx, const Norm& n, const Saved& saved, View dnormed, View dresidual, View dx) {
  if (n.spec.kind == NormKind::rms_norm)
    ops::rms_norm_backward(ctx.stream, {.dout = dnormed,
                                        .x = at(saved, n.x),
                                        .weight = ctx.params.weight(n.weight),
                                        .rstd = at(saved, n.rstd),
                                        .dresidual = dresidual,
                                        .dx = dx,
                                        .dweight = ctx.params.grad(n.weight)});
  else
    ops::layer_norm_backward(ctx.stream, {.dout = dnormed,
                                          .x = at(saved, n.x),
                                          .weight = ctx.params.weight(n.weight),
                                          .mean = at(saved, n.mean),
                                          .rstd = at(saved, n.rstd),
                                          .dresidual = dresidual,
                                          .dx = dx,
                                          .dweight = ctx.params.grad(n.weight),
                                          .dbias = ctx.params.grad(n.bias)});
}

}  // namespace mt
