#include "ops/gemm_gelu_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(GemmGelu, gemm_gelu_fused_cases())
MT_OP_TESTS(GemmGeluOddShapes, gemm_gelu_odd_cases())

TEST(GemmGeluDeathTest, RefusesWhatItCannotAddUpOrTellApart) {
  Data d;
  TestStream st;
  const View a = d.zeros(DType::bf16, {4, 16}), b = d.zeros(DType::bf16, {8, 16}), c = d.zeros(DType::bf16, {4, 8}),
             aux = d.zeros(DType::bf16, {4, 8}), bias = d.zeros(DType::bf16, {8});
  ops::GemmGeluArgs g{{.a = a, .b = b, .c = c, .trans_b = true, .bias = {}}, aux};
  EXPECT_DEATH(ops::gemm_gelu(st, {g.product, c}), "beside c");
  EXPECT_DEATH(ops::gemm_gelu(st, {g.product, d.zeros(DType::bf16, {8, 4})}), "aux");
  g.product.accumulate = true;
  EXPECT_DEATH(ops::gemm_gelu(st, g), "accumulating");
  g.product.accumulate = false;
  g.product.bias = bias, g.backward = true;
  EXPECT_DEATH(ops::gemm_gelu(st, g), "bias backward");
}

}  // namespace mt::test
