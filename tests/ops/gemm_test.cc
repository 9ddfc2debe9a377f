#include "ops/gemm_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Gemm, gemm_cases())
MT_OP_TESTS(GemmModes, gemm_mode_cases())

TEST(Gemm, GivesTheSameBitsForAnyNumberOfThreadsOverManyTiles) {
  for (const OpCase& c : gemm_tile_cases()) expect_thread_free(c);
}

TEST(Gemm, LeavesMemoryBesideAStridedResultAlone) {
  Data d;
  const View whole = d.normal(DType::f32, {20, 40}), before = d.copy(whole);
  const View c = whole.slice(1, 8, 24);
  TestStream stream;
  ops::gemm(stream, {.a = d.normal(DType::f32, {20, 12}), .b = d.normal(DType::f32, {12, 16}), .c = c, .bias = {}});
  for (I i = 0; i < 20; ++i)
    for (I j = 0; j < 40; j += j == 7 ? 17 : 1) EXPECT_EQ(load(whole, i * 40 + j), load(before, i * 40 + j));
}

TEST(Gemm, CostCountsTwoFlopAMultiplyAdd) {
  const ops::Cost c = ops::gemm_cost(2, 3, 5, 7, 2, 4);
  EXPECT_EQ(c.flop, 2.0 * 2 * 3 * 5 * 7);
  EXPECT_EQ(c.bytes, 2.0 * ((3 * 7 + 7 * 5) * 2 + 3 * 5 * 4));
}

TEST(GemmDeathTest, RefusesShapesThatDoNotMultiply) {
  Data d;
  TestStream stream;
  const View a = d.normal(DType::f32, {4, 3}), b = d.normal(DType::f32, {4, 5}), c = d.zeros(DType::f32, {4, 5});
  EXPECT_DEATH(ops::gemm(stream, {.a = a, .b = b, .c = c, .bias = {}}), "is no c");
}

}  // namespace mt::test
