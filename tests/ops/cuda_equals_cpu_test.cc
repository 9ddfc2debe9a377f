// Ops that work element by element, and sums whose order is fixed, give the CPU's bits on the CUDA backend too.
#include <gtest/gtest.h>

#include "ops/activation_cases.h"
#include "ops/adamw_cases.h"
#include "ops/arithmetic.h"
#include "ops/bias_dropout_add_cases.h"
#include "ops/embedding_cases.h"
#include "ops/fp8_cases.h"
#include "ops/momentum_cases.h"
#include "ops/rms_norm.h"

namespace mt::test {

namespace {

void expect_equal_bits(const OpCase& c) {
  SCOPED_TRACE(c.name);
  const Prepared here = c.prepare(), there = c.prepare();
  Stream cpu;
  here.run(cpu);
  TestStream cuda;
  there.run(cuda);
  cuda.synchronize();
  for (std::size_t i = 0; i < here.outputs.size(); ++i) {
    const Doubles want = values(here.outputs[i].view), got = values(there.outputs[i].view);
    ASSERT_EQ(got.size(), want.size());
    std::size_t wrong = 0;
    for (std::size_t j = 0; j < got.size(); ++j) {
      if (std::memcmp(&got[j], &want[j], sizeof(double)) == 0) continue;
      if (wrong++ == 0)
        ADD_FAILURE() << here.outputs[i].name << "[" << j << "] is " << got[j] << ", the CPU's " << want[j];
    }
    EXPECT_EQ(wrong, 0u) << "of " << got.size() << " of " << here.outputs[i].name;
  }
}

void expect_equal_bits(const std::vector<OpCase>& cases) {
  if (on_cpu()) GTEST_SKIP() << "no other backend to compare with: MT_TEST_DEVICE is cpu";
  for (const OpCase& c : cases) expect_equal_bits(c);
}

}  // namespace

TEST(CudaEqualsCpu, Activations) { expect_equal_bits(activation_cases()); }
TEST(CudaEqualsCpu, BiasAndDropout) { expect_equal_bits(bias_dropout_add_cases()); }
TEST(CudaEqualsCpu, Adamw) { expect_equal_bits(adamw_cases()); }
TEST(CudaEqualsCpu, OtherUpdateRules) { expect_equal_bits(momentum_cases()); }
TEST(CudaEqualsCpu, EmbeddingsAndTheirGradients) { expect_equal_bits(embedding_cases()); }
TEST(CudaEqualsCpu, Rotary) { expect_equal_bits(rotary_cases()); }
TEST(CudaEqualsCpu, Fp8) { expect_equal_bits(fp8_cases()); }

// A row with more tokens than the kernel keeps in order at once, and rows of every other count below.
TEST(CudaEqualsCpu, GradientsOfFrequentTokens) {
  std::vector<OpCase> cases;
  for (DType t : {DType::f32, DType::bf16})
    cases.push_back({fmt::format("into {}", dtype_name(t)), [t] {
                       Prepared p;
                       Doubles ids;
                       for (int i = 0; i < 700; ++i) ids.push_back(i % 7 < 3 ? 2 : i % 11);
                       const View at = p.data->list(DType::i32, ids), dout = p.data->normal(DType::bf16, {700, 1100}),
                                  dw = p.data->normal(t, {11, 1100});
                       p.run = [=](Stream& st) { ops::embedding_backward(st, {at, dout, dw, 0}); };
                       p.outputs = {{"dweight", dw, {}, 0}};
                       return p;
                     }});
  expect_equal_bits(cases);
}

TEST(CudaEqualsCpu, ColumnSums) {
  std::vector<OpCase> cases;
  for (I rows : {1, 127, 128, 129, 500})
    for (I columns : {1, 8, 45})
      cases.push_back({fmt::format("{}x{}", rows, columns), [rows, columns] {
                         Prepared p;
                         const View x = p.data->normal(DType::bf16, {rows, columns + 3}).slice(1, 0, columns),
                                    sum = p.data->normal(DType::f32, {columns});
                         p.run = [=](Stream& st) { ops::column_sum(st, {x, sum}); };
                         p.outputs = {{"sum", sum, {}, 0}};
                         return p;
                       }});
  expect_equal_bits(cases);
}

TEST(CudaEqualsCpu, GradientsOfNormWeights) {
  std::vector<OpCase> cases;
  for (I rows : {3, 300})
    cases.push_back({fmt::format("{} rows", rows), [rows] {
                       Prepared p;
                       const View x = p.data->normal(DType::bf16, {rows, 72}), w = p.data->normal(DType::bf16, {72}),
                                  dout = p.data->normal(DType::bf16, {rows, 72}),
                                  rstd = p.data->normal(DType::f32, {rows}), dw = p.data->normal(DType::bf16, {72});
                       p.run = [=](Stream& st) {
                         ops::rms_norm_backward(st, {dout, x, w, rstd, View(), View(), dw, false});
                       };
                       p.outputs = {{"dweight", dw, {}, 0}};
                       return p;
                     }});
  expect_equal_bits(cases);
}

TEST(CudaEqualsCpu, SumsScalesAndCastsOfAnyAlignment) {
  std::vector<OpCase> cases;
  for (DType a : {DType::f32, DType::bf16, DType::f16})
    for (DType b : {DType::f32, DType::bf16, DType::f16})
      for (I from : {0, 1, 8})
        cases.push_back({fmt::format("{} and {} from {}", dtype_name(a), dtype_name(b), from), [a, b, from] {
                           Prepared p;
                           Data& d = *p.data;
                           const View x = d.normal(a, {777}).rows(from, 777), y = d.normal(b, {777}).rows(from, 777),
                                      sum = d.zeros(b, {777}).rows(from, 777), half = d.zeros(b, {777}).rows(from, 777),
                                      turned = d.zeros(b, {3, 5, 50}), wide = d.normal(a, {5, 3, 66});
                           View order = wide.slice(2, from, from + 50);
                           order.shape = {3, 5, 50};
                           order.strides = {66, 198, 1};
                           p.run = [=](Stream& st) {
                             ops::add(st, {x, y, sum});
                             ops::scale(st, {x, half, -0.37f});
                             ops::cast(st, {order, turned});
                           };
                           p.outputs = {{"sum", sum, {}, 0}, {"scaled", half, {}, 0}, {"cast", turned, {}, 0}};
                           return p;
                         }});
  expect_equal_bits(cases);
}

}  // namespace mt::test
