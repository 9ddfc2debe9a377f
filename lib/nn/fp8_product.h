#pragma once
// The products of a linear layer with operands rounded to fp8, each rounded as seldom as it can be.
//
//   x       in the forward along its features, in the backward down its tokens
//   dy      once, with the input gradient; what the weight gradient reads waits in the flow, in memory of Flow::kept
//   weight  once a step and direction where the spec keeps weights (Fp8State::weight), else once a product
// What delayed scaling records is found in the same pass. A scale of a whole tensor is the same on all tp ranks.
// Code: nn/fp8_product.cc. Tests: tests/nn/fp8_product_test.cc.

#include "nn/parallel_linear.h"

namespace mt {

// The functions of nn/parallel_linear.h, but for a bias's gradient.
//   needs  ctx.fp8   cost  as theirs, and a pass over what is rounded; tensorwise scaling: another, and 4 bytes over tp
void fp8_linear(Ctx& ctx, const Product& product, View x, View y);
void fp8_backward_input(Ctx& ctx, Flow& flow, const Product& product, View dy, View dx);
void fp8_backward_weight(Ctx& ctx, Flow& flow, const Product& product, View dy, View x);

}  // namespace mt
