// Operations of a step against Megatron's checked totals and a count of every product by hand.

#include "layout/flops.h"

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

ModelSpec gpt(int layers, int hidden, int heads, std::int64_t vocab) {
  ModelOptions o;
  o.num_layers = layers;
  o.hidden_size = hidden;
  o.num_attention_heads = heads;
  return build_model(o, vocab);
}

TEST(Flops, AreMegatronsTotals) {
  EXPECT_NEAR(step_flops(gpt(24, 2048, 16, 131072), {}, {4096, 1, 192}).causal, 7.916e15, 0.001e15);
  EXPECT_NEAR(step_flops(gpt(96, 12288, 96, 131072), {}, {4096, 1, 1152}).causal, 5107e15, 1e15);
}

TEST(Flops, AreTheProductsOfTheModelCountedOneByOne) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});  // hidden 32, heads of 4, ffn 48, gated, 2 layers
  ParallelSpec tp2;
  tp2.tp = 2;
  const double t = 3 * 16, pairs = 3 * 16 * 16;
  double forward = 0;
  for (int layer = 0; layer < 2; ++layer) {
    forward += 2 * t * 32 * (32 + 8 + 8) + 2 * t * 32 * 32;  // q, k, v; projection
    forward += 2 * t * 32 * 48 * 3;                          // gate, up, down
    forward += 2 * 8 * 4 * pairs * 2;                        // scores and context, every pair
  }
  forward += 2 * t * 32 * 64;  // logits over the padded vocabulary
  const StepFlops f = step_flops(model, tp2, {16, 1, 3});
  EXPECT_DOUBLE_EQ(f.non_causal, 3 * forward);
  EXPECT_DOUBLE_EQ(f.causal, 3 * (forward - 2 * 2 * 8 * 4 * pairs));
  EXPECT_DOUBLE_EQ(f.with_recompute, f.causal) << "nothing is computed twice";
}

}  // namespace
}  // namespace mt
