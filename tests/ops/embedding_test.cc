#include "ops/embedding_cases.h"

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(Embedding, embedding_cases())

TEST(Embedding, ShardsAddUpToTheWhole) {
  Data d;
  TestStream st;
  const View weight = d.normal(DType::f32, {10, 8}), ids = d.integers(DType::i32, {30}, 0, 10);
  const View whole = d.zeros(DType::f32, {30, 8}), low = d.zeros(DType::f32, {30, 8}),
             high = d.zeros(DType::f32, {30, 8});
  ops::embedding_forward(st, {ids, weight, whole, 0, {}, {}});
  ops::embedding_forward(st, {ids, weight.rows(0, 6), low, 0, {}, {}});
  ops::embedding_forward(st, {ids, weight.rows(6, 10), high, 6, {}, {}});
  EXPECT_EQ(plus(values(low), values(high)), values(whole));
}

}  // namespace mt::test
