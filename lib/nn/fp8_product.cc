#include "nn/fp8_product.h"

#include "base/error.h"
#include "ops/arithmetic.h"
#include "ops/fp8.h"
#include "tensor/tensor.h"

namespace mt {

namespace {

using ops::Fp8Form;
using ops::Fp8Matrix;
using Recipe = Fp8Spec::Recipe;

const Fp8Spec& spec_of(const Ctx& ctx) { return ctx.fp8->spec(); }

// How an operand is rounded; without copies yet.
Fp8Matrix matrix_of(const Ctx& ctx, Fp8Operand operand, View x) {
  Fp8Matrix m;
  m.rows = x.dim(0);
  m.columns = x.dim(1);
  m.dtype = x.dtype;
  m.format = operand == Fp8Operand::dy && spec_of(ctx).hybrid ? DType::e5m2 : DType::e4m3;
  m.scaling = spec_of(ctx).recipe != Recipe::blockwise ? ops::Fp8Scaling::tensor
              : operand == Fp8Operand::weight          ? ops::Fp8Scaling::squares
                                                       : ops::Fp8Scaling::lines;
  return m;
}

// For one copy, of any form.
View memory_for(Arena& arena, const Fp8Matrix& m) { return allocate(arena, m.dtype, {m.rows, m.columns}); }

void find_largest(Ctx& ctx, View x, View amax) {
  ops::fill(ctx.stream, amax, 0);
  ops::abs_max(ctx.stream, {.x = x, .out = amax});
  if (ctx.groups.tp->size() > 1) ctx.groups.tp->all_reduce(ctx.stream, amax, Reduce::max).wait(ctx.stream);
}

// The magnitude a tensor's scale comes from.
View amax_of(Ctx& ctx, const Product& p, Fp8Operand operand, View x) {
  if (spec_of(ctx).recipe == Recipe::delayed) return ctx.fp8->used(p.unit, p.place, operand);
  if (spec_of(ctx).recipe == Recipe::blockwise) return {};
  const View amax = allocate(ctx.scratch, DType::f32, {1});
  find_largest(ctx, x, amax);
  return amax;
}

// Where its own magnitude is recorded.
View seen_of(const Ctx& ctx, const Product& p, Fp8Operand operand) {
  const bool records = ctx.records && spec_of(ctx).recipe == Recipe::delayed;
  return records ? ctx.fp8->seen(p.unit, p.place, operand) : View();
}

void quantize(Ctx& ctx, const Fp8Matrix& to, View x, View amax, View seen) {
  ops::fp8_quantize(ctx.stream, {.x = x, .to = to, .amax = amax, .margin = spec_of(ctx).margin, .seen = seen});
}

// A weight in a product: its copy in the step's memory where weights are kept, else in scratch.
class WeightOperand {
 public:
  WeightOperand(Ctx& ctx, const Product& p, bool along)
      : ctx_(ctx), p_(p), along_(along), x_(ctx.params.weight(p.weight)) {
    if (spec_of(ctx).keep_weights) kept_ = &ctx.fp8->weight(p.unit, p.place, x_.dim(0), x_.dim(1), x_.dtype);
    matrix_ = matrix_of(ctx, Fp8Operand::weight, x_);
    copy().memory = kept_ ? kept_->memory.view() : memory_for(ctx.scratch, matrix_);
  }

  // With memory to ask for the product's form with.
  const Fp8Matrix& asked() const { return matrix_; }
  // With the copy.
  const Fp8Matrix& made(Fp8Form form) {
    const bool notes = along_ && !(kept_ && kept_->noted);
    const View seen = notes ? seen_of(ctx_, p_, Fp8Operand::weight) : View();
    if (kept_ && seen) kept_->noted = true;
    copy().form = form;
    if (!kept_) {
      quantize(ctx_, matrix_, x_, amax_of(ctx_, p_, Fp8Operand::weight, x_), seen);
      return matrix_;
    }
    const Fp8Matrix::Copy &there = kept_->copies.copy(along_), &other = kept_->copies.copy(!along_);
    if (there.memory && there.form == form) {
      if (seen) ops::abs_max(ctx_.stream, {.x = x_, .out = seen});
      return kept_->copies;
    }
    // An odd shape, of which one product is fp8 and the other not: there is no room for both.
    const bool keeps = !there.memory && (!other.memory || other.form == form);
    if (!keeps) copy().memory = memory_for(ctx_.scratch, matrix_);
    else if (form == Fp8Form::bytes && !along_) copy().memory = second_half();
    quantize(ctx_, matrix_, x_, kept_amax(), seen);
    if (!keeps) return matrix_;
    Fp8Matrix& copies = kept_->copies;
    const Fp8Matrix before = copies;
    copies = matrix_;
    if (form == Fp8Form::rounded) copies.along = copies.down = copy();
    else (along_ ? copies.down : copies.along) = before.copy(!along_);
    return copies;
  }

 private:
  Fp8Matrix::Copy& copy() { return along_ ? matrix_.along : matrix_.down; }
  View second_half() const {
    const View all = kept_->memory.view();
    const std::int64_t first = ops::fp8_copy_bytes(matrix_, Fp8Form::bytes, true);
    return all.rows((first + kFp8Line - 1) / kFp8Line * kFp8Line, all.dim(0));
  }
  // Tensorwise: found once, kept behind the copies.
  View kept_amax() {
    if (spec_of(ctx_).recipe != Recipe::tensorwise) return amax_of(ctx_, p_, Fp8Operand::weight, x_);
    const View all = kept_->memory.view();
    const View amax(all.rows(all.dim(0) - kFp8Line, all.dim(0)).data, DType::f32, {1});
    if (!kept_->amax_known) find_largest(ctx_, x_, amax);
    kept_->amax_known = true;
    return amax;
  }

  Ctx& ctx_;
  const Product& p_;
  bool along_;
  View x_;
  Fp8State::Weight* kept_ = nullptr;
  Fp8Matrix matrix_;
};

// dW += dyᵀ·x of copies down the tokens.
ops::Fp8GemmArgs weight_product(const Ctx& ctx, const Fp8Matrix& dy, const Fp8Matrix& x, View dw) {
  return {.a = dy, .b = x, .c = dw, .bias = {}, .trans_a = true, .accumulate = true, .mode = ctx.gemm_mode};
}

// The form dy needs for its weight gradient, before that gradient and x's copy have memory: dy's stands for theirs.
Fp8Form form_for_weight(Ctx& ctx, const Product& p, Fp8Matrix dy, View memory) {
  const View weight = ctx.params.weight(p.weight);
  Fp8Matrix x = matrix_of(ctx, Fp8Operand::x, View(memory.data, dy.dtype, {dy.rows, weight.dim(1)}));
  dy.down.memory = x.down.memory = memory;
  const View dw(memory.data, ctx.params.grad_dtype(), weight.shape);
  return ops::fp8_form(ctx.stream, weight_product(ctx, dy, x, dw));
}

}  // namespace

void fp8_linear(Ctx& ctx, const Product& p, View x, View y) {
  const ArenaScope scope(ctx.scratch);
  WeightOperand weight(ctx, p, true);
  ops::Fp8GemmArgs g{.a = matrix_of(ctx, Fp8Operand::x, x),
                     .b = weight.asked(),
                     .c = y,
                     .bias = {},
                     .trans_b = true,
                     .mode = ctx.gemm_mode};
  if (p.bias >= 0) g.bias = ctx.params.weight(p.bias);
  g.a.along.memory = memory_for(ctx.scratch, g.a);
  g.a.along.form = ops::fp8_form(ctx.stream, g);
  quantize(ctx, g.a, x, amax_of(ctx, p, Fp8Operand::x, x), seen_of(ctx, p, Fp8Operand::x));
  g.b = weight.made(g.a.along.form);
  ops::fp8_gemm(ctx.stream, g);
}

void fp8_backward_input(Ctx& ctx, Flow& flow, const Product& p, View dy, View dx) {
  const Fp8Spec& spec = spec_of(ctx);
  Fp8Matrix m = matrix_of(ctx, Fp8Operand::dy, dy);
  // Of lines each direction has its own numbers; with one scale both copies share a block.
  const bool lines = m.scaling == ops::Fp8Scaling::lines, pair = spec.weight_gradients && !lines;
  View kept;
  if (pair) kept = allocate(*flow.kept, DType::u8, {fp8_pair_bytes(m.rows, m.columns, bytes_of(m.dtype, 1), false)});
  else if (spec.weight_gradients) kept = memory_for(*flow.kept, m);
  const ArenaScope scope(ctx.scratch);
  WeightOperand weight(ctx, p, false);
  ops::Fp8GemmArgs g{.a = m, .b = weight.asked(), .c = dx, .bias = {}, .mode = ctx.gemm_mode};
  g.a.along.memory = pair ? kept : memory_for(ctx.scratch, m);
  g.a.along.form = ops::fp8_form(ctx.stream, g);
  if (kept) g.a.down = {kept, form_for_weight(ctx, p, m, kept)};
  if (pair && g.a.along.form != g.a.down.form) {  // an odd number of tokens
    g.a.along.memory = memory_for(ctx.scratch, m);
  } else if (pair && g.a.down.form == Fp8Form::bytes) {
    const std::int64_t first = ops::fp8_copy_bytes(m, Fp8Form::bytes, true);
    g.a.down.memory = kept.rows((first + kFp8Line - 1) / kFp8Line * kFp8Line, kept.dim(0));
  }
  quantize(ctx, g.a, dy, amax_of(ctx, p, Fp8Operand::dy, dy), seen_of(ctx, p, Fp8Operand::dy));
  flow.rounded_dy[p.place] = g.a;
  g.b = weight.made(g.a.along.form);
  ops::fp8_gemm(ctx.stream, g);
}

void fp8_backward_weight(Ctx& ctx, Flow& flow, const Product& p, View dy, View x) {
  const ArenaScope scope(ctx.scratch);
  Fp8Matrix mx = matrix_of(ctx, Fp8Operand::x, x);
  mx.down.memory = memory_for(ctx.scratch, mx);
  ops::Fp8GemmArgs g = weight_product(ctx, flow.rounded_dy[p.place], mx, ctx.params.grad(p.weight, p.slot));
  MT_CHECK(g.a.down.memory, "no copy of dy");
  g.b.down.form = ops::fp8_form(ctx.stream, g);
  if (g.a.down.form != g.b.down.form) {  // the gradient lies on other borders than was thought
    g.a.along = {};
    g.a.down = {memory_for(ctx.scratch, g.a), g.b.down.form};
    quantize(ctx, g.a, dy, amax_of(ctx, p, Fp8Operand::dy, dy), {});
  }
  quantize(ctx, g.b, x, amax_of(ctx, p, Fp8Operand::x, x), {});
  ops::fp8_gemm(ctx.stream, g);
}

}  // namespace mt
