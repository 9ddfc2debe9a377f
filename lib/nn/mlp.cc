#include "nn/mlp.h"

#include "base/hash.h"
#include "nn/norm.h"
#include "nn/overlapped_linear.h"
#include "nn/residual.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/gemm_gelu.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

struct Ffn {
  Norm norm;
  ops::Activation activation;
  bool gated;
  Residual residual;
  Product fc1_product, fc2_product;
  int fc1_bias;
  int fc1, activated;  // saved members
  bool fused;  // GELU in the products beside it; then the member fc1 has the bias in it
};

// Where a backend has such products, and the activation is not what is made again without its product.
bool fuses_gelu(const ParameterStore& params, const Row& row, const RowRecompute& again) {
  return params.device().kind != DeviceKind::cpu && params.compute_dtype() != DType::f32 && !row.fp8 && !row.ffn.gated &&
         row.ffn.activation == Activation::gelu_tanh && !(again.middle && !again.inner);
}

ops::Activation activation_of(Activation a) {
  switch (a) {
    case Activation::gelu_tanh: return ops::Activation::gelu_tanh;
    case Activation::gelu_erf: return ops::Activation::gelu_erf;
    case Activation::silu: return ops::Activation::silu;
    case Activation::squared_relu: return ops::Activation::squared_relu;
    case Activation::relu: return ops::Activation::relu;
  }
  return ops::Activation::gelu_tanh;
}

View member(const Flow& flow, int i) { return flow.saved->members[static_cast<std::size_t>(i)]; }

View bias_of(const Ctx& ctx, int bias) { return bias >= 0 ? ctx.params.weight(bias) : View(); }

// A gather cut in pieces is awaited by its product, which then is none of these.
bool is_fused(const Ctx& ctx, const Ffn& n) { return n.fused && !(ctx.tp_overlap.gather && is_sharded(ctx)); }

void project_in(Ctx& ctx, const Ffn& n, Flow& f) {
  if (!is_fused(ctx, n)) return linear_of_gathered(ctx, f, n.fc1_product, f.full, member(f, n.fc1));
  ops::gemm_gelu(ctx.stream, {.product = {.a = f.full,
                                          .b = ctx.params.weight(n.fc1_product.weight),
                                          .c = member(f, n.activated),
                                          .trans_b = true,
                                          .bias = bias_of(ctx, n.fc1_bias),
                                          .mode = ctx.gemm_mode},
                              .aux = member(f, n.fc1)});
}

void activate(Ctx& ctx, const Ffn& n, Flow& f) {
  if (is_fused(ctx, n)) return;
  ops::activation_forward(ctx.stream, {.x = member(f, n.fc1),
                                       .bias = bias_of(ctx, n.fc1_bias),
                                       .out = member(f, n.activated),
                                       .kind = n.activation,
                                       .gated = n.gated});
}

void project_out(Ctx& ctx, const Ffn& n, Flow& f) { linear_to_sum(ctx, f, n.fc2_product, member(f, n.activated)); }

// The gradient of fc1, from that of the layer's output.
void core_backward(Ctx& ctx, const Ffn& n, Flow& f) {
  const View fc1 = member(f, n.fc1), activated = member(f, n.activated);
  const View dbias = n.fc1_bias >= 0 ? ctx.params.grad(n.fc1_bias) : View();
  if (is_fused(ctx, n)) {
    f.dinner = allocate(*f.kept, fc1.dtype, fc1.shape);
    ops::gemm_gelu(ctx.stream, {.product = {.a = f.dz_full,
                                            .b = ctx.params.weight(n.fc2_product.weight),
                                            .c = f.dinner,
                                            .bias = {},
                                            .mode = ctx.gemm_mode},
                                .aux = fc1,
                                .backward = true});
    if (dbias) ops::column_sum(ctx.stream, {.x = f.dinner, .out = dbias});
    return;
  }
  const View dactivated = allocate(ctx.scratch, activated.dtype, activated.shape);
  linear_backward_input_of_gathered(ctx, f, n.fc2_product, f.dz_full, dactivated);
  f.dinner = allocate(*f.kept, fc1.dtype, fc1.shape);
  ops::activation_backward(ctx.stream, {.x = fc1,
                                        .bias = bias_of(ctx, n.fc1_bias),
                                        .dout = dactivated,
                                        .dx = f.dinner,
                                        .dbias = dbias,
                                        .kind = n.activation,
                                        .gated = n.gated});
}

}  // namespace

SubLayer mlp(const ParameterStore& params, const Row& row, int unit, const SavedTable& saved) {
  SubLayer s;
  const std::string prefix = fmt::format("decoder.layers.{}.", row.layer);
  s.name = prefix + "mlp";
  s.unit = unit;
  s.weight_units = {unit};
  s.saved = saved.tensors;
  s.again = saved.again;
  s.fp8 = row.fp8;
  const auto p = [&](const char* name) { return require_param(params, s.name + name); };
  const bool bias = row.ffn.bias;
  Ffn n{make_norm(params, s, row.norm, prefix + "pre_mlp_layernorm"),
        activation_of(row.ffn.activation),
        row.ffn.gated,
        {row.residual_dropout, xxh3(s.name), bias ? p(".linear_fc2.bias") : -1},
        {p(".linear_fc1.weight"), -1, 0, row.fp8, unit, 0},
        {p(".linear_fc2.weight"), -1, 0, row.fp8, unit, 1},
        bias ? p(".linear_fc1.bias") : -1,
        s.member("fc1"),
        s.member("activated"),
        fuses_gelu(params, row, s.again)};
  using K = Segment::Kind;
  s.forward = {
      {K::compute, "norm", [n](Ctx& c, Flow& f) { norm_forward(c, n.norm, *f.saved); }},
      {K::start, "gather",
       [n](Ctx& c, Flow& f) { start_gather_for(c, f, n.fc1_product, member(f, n.norm.normed), f.full); }},
      {K::await, "gather", await_gather},
      {K::compute, "fc1", [n](Ctx& c, Flow& f) { project_in(c, n, f); }},
      {K::compute, "activation", [n](Ctx& c, Flow& f) { activate(c, n, f); }},
      {K::compute, "fc2", [n](Ctx& c, Flow& f) { project_out(c, n, f); }},
      {K::start, "sum", [](Ctx& c, Flow& f) { start_sum(c, f, f.partial, f.partial); }},
      {K::await, "sum", await_sum},
      {K::compute, "residual", [n](Ctx& c, Flow& f) { residual_forward(c, n.residual, f); }},
  };
  s.backward_input = {
      {K::compute, "residual", [n](Ctx& c, Flow& f) { residual_backward(c, n.residual, f); }},
      {K::start, "gather", [n](Ctx& c, Flow& f) { start_gather_kept_for(c, f, n.fc2_product, f.dz, f.dz_full); }},
      {K::await, "gather", await_gather},
      {K::compute, "mlp", [n](Ctx& c, Flow& f) { core_backward(c, n, f); }},
      {K::compute, "fc1", [n](Ctx& c, Flow& f) { linear_backward_input_to_sum(c, f, n.fc1_product, f.dinner); }},
      {K::start, "sum", [](Ctx& c, Flow& f) { start_sum(c, f, f.partial, f.partial); }},
      {K::await, "sum", await_sum},
      {K::compute, "norm", [n](Ctx& c, Flow& f) { norm_backward(c, n.norm, *f.saved, f.partial, f.dy, f.dx); }},
  };
  s.backward_weight = {
      {K::start, "gather", [n](Ctx& c, Flow& f) { start_gather(c, f, member(f, n.norm.normed), f.full); }},
      {K::compute, "fc2",
       [n](Ctx& c, Flow& f) { linear_backward_weight(c, f, n.fc2_product, f.dz_full, member(f, n.activated)); }},
      {K::await, "gather", await_gather},
      {K::compute, "fc1", [n](Ctx& c, Flow& f) { linear_backward_weight(c, f, n.fc1_product, f.dinner, f.full); }},
  };
  take_recompute(s, "fc1", "activation");
  return s;
}

}  // namespace mt
