#include "ops/fp8_gemm_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Fp8Gemm, fp8_gemm_hardware_cases())
MT_OP_TESTS(Fp8GemmOddShapes, fp8_gemm_odd_cases())

// Equal bits where scales are of tensors: the same exact terms, whichever way a device goes.
TEST(Fp8Gemm, IsTheProductOfRoundedOperands) {
  if (!on_cpu()) GTEST_SKIP() << "the order of a device's sums is its own";
  Data d;
  TestStream st;
  const Fp8GemmShape s{20, 24, 64, true, false, false};
  ops::Fp8GemmArgs g;
  g.a = fp8_operand(d, s, s.m, false, DType::e4m3, false);
  g.b = fp8_operand(d, s, s.n, false, DType::e5m2, false);
  g.c = d.zeros(DType::bf16, {s.m, s.n});
  g.trans_a = true;
  for (const ops::Fp8RoundArgs* r : {&g.a, &g.b}) ops::abs_max(st, {r->x, r->amax});
  ops::fp8_gemm(st, g);
  const Doubles got = values(g.c);
  ops::fp8_round(st, g.a);
  ops::fp8_round(st, g.b);
  ops::gemm(st, {.a = g.a.out, .b = g.b.out, .c = g.c, .trans_a = true, .bias = {}});
  EXPECT_EQ(got, values(g.c));
}

TEST(Fp8Gemm, SaysWhichProductsADeviceHas) {
  EXPECT_EQ(ops::fp8_products({}, false), "bf16, of operands rounded to fp8");
  EXPECT_EQ(ops::fp8_products({}, true), "bf16, of operands rounded to fp8");
}

TEST(Fp8GemmDeathTest, RefusesShapesThatDoNotMultiply) {
  Data d;
  TestStream st;
  ops::Fp8GemmArgs g;
  g.a = fp8_operand(d, {4, 8, 16, false, true, false}, 4, true, DType::e4m3, false);
  g.b = fp8_operand(d, {4, 8, 32, false, true, false}, 8, true, DType::e4m3, false);
  g.c = d.zeros(DType::bf16, {4, 8});
  g.trans_b = true;
  EXPECT_DEATH(ops::fp8_gemm(st, g), "is no c");
}

}  // namespace mt::test
