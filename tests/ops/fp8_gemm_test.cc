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
  const Fp8GemmOperand a = fp8_operand(d, s, s.m, false, DType::e4m3, false),
                       b = fp8_operand(d, s, s.n, false, DType::e5m2, false);
  ops::Fp8GemmArgs g;
  g.c = d.zeros(DType::bf16, {s.m, s.n});
  g.trans_a = true;
  round_and_multiply(st, a, b, g);
  const Doubles got = values(g.c);
  const View ra = d.zeros(DType::bf16, a.x.shape), rb = d.zeros(DType::bf16, b.x.shape);
  ops::fp8_round(st, {a.x, ra, DType::e4m3, a.amax});
  ops::fp8_round(st, {b.x, rb, DType::e5m2, b.amax});
  ops::gemm(st, {.a = ra, .b = rb, .c = g.c, .trans_a = true, .bias = {}});
  EXPECT_EQ(got, values(g.c));
}

struct Quantized {
  DType format;
  ops::Fp8Scaling scaling;
  I rows, columns, pad;
};

// Bytes of both copies made at once, and of each made alone; the magnitude noted meanwhile.
void expect_one_pass(const Quantized& q, ops::Fp8Form form) {
  Data d;
  TestStream st;
  const View x = d.normal(DType::bf16, {q.rows, q.columns + q.pad}, 0.7).slice(1, 0, q.columns);
  ops::Fp8QuantizeArgs both{.x = x, .to = {}, .amax = d.list(DType::f32, {1.75}), .margin = 1, .seen = {}};
  both.to.rows = q.rows, both.to.columns = q.columns, both.to.format = q.format, both.to.scaling = q.scaling;
  const auto copy = [&](bool along_rows) -> ops::Fp8Matrix::Copy {
    const I words = ops::fp8_copy_bytes(both.to, form, along_rows) / 4;
    return {d.zeros(DType::i32, {words}), form};
  };
  both.to.along = copy(true), both.to.down = copy(false);
  both.seen = d.list(DType::f32, {0.25});
  ops::fp8_quantize(st, both);
  const Doubles bytes[] = {values(both.to.along.memory), values(both.to.down.memory)};
  double most = 0;
  for (const double v : values(x)) most = std::max(most, std::fabs(v));
  EXPECT_EQ(values(both.seen)[0], most);
  ops::fp8_quantize(st, both);
  EXPECT_EQ(values(both.seen)[0], most) << "it only grows";
  ops::Fp8QuantizeArgs alone = both;
  alone.seen = {};
  alone.to.along = copy(true), alone.to.down = {};
  ops::fp8_quantize(st, alone);
  EXPECT_EQ(values(alone.to.along.memory), bytes[0]);
  alone.to.along = {}, alone.to.down = copy(false);
  ops::fp8_quantize(st, alone);
  EXPECT_EQ(values(alone.to.down.memory), bytes[1]);
  EXPECT_NE(bytes[0], Doubles(bytes[0].size(), 0.0));
}

TEST(Fp8Quantize, MakesBothCopiesAndNotesTheMagnitudeInOnePass) {
  for (const auto scaling : {ops::Fp8Scaling::tensor, ops::Fp8Scaling::lines, ops::Fp8Scaling::squares})
    for (const auto& [rows, columns, pad] : {std::array<I, 3>{16, 32, 0}, {144, 272, 8}, {272, 128, 3}}) {
      SCOPED_TRACE(fmt::format("scaling {} of {}x{}", static_cast<int>(scaling), rows, columns));
      expect_one_pass({DType::e4m3, scaling, rows, columns, pad}, ops::Fp8Form::rounded);
      if (!on_cpu()) expect_one_pass({DType::e5m2, scaling, rows, columns, pad}, ops::Fp8Form::bytes);
    }
}

// One scale serves both directions, so rounded numbers lie in one place.
TEST(Fp8Quantize, RoundedCopiesWithoutLinesShareTheirMemory) {
  Data d;
  TestStream st;
  const View x = d.normal(DType::bf16, {130, 140}), shared = d.zeros(DType::bf16, {130, 140}),
             alone = d.zeros(DType::bf16, {130, 140}), amax = d.list(DType::f32, {3});
  for (const auto scaling : {ops::Fp8Scaling::tensor, ops::Fp8Scaling::squares}) {
    ops::Fp8QuantizeArgs q{.x = x, .to = {}, .amax = amax, .seen = {}};
    q.to.rows = 130, q.to.columns = 140, q.to.scaling = scaling;
    q.to.along.memory = q.to.down.memory = shared;
    ops::fp8_quantize(st, q);
    const bool tensor = scaling == ops::Fp8Scaling::tensor;
    ops::fp8_round(st, {x, alone, DType::e4m3, tensor ? amax : View(), 0, 128, 128});
    EXPECT_EQ(values(shared), values(alone));
  }
}

TEST(Fp8Gemm, SaysWhichProductsADeviceHas) {
  EXPECT_EQ(ops::fp8_products({}, false), "bf16, of operands rounded to fp8");
  EXPECT_EQ(ops::fp8_products({}, true), "bf16, of operands rounded to fp8");
}

TEST(Fp8GemmDeathTest, RefusesShapesThatDoNotMultiply) {
  Data d;
  TestStream st;
  const Fp8GemmOperand a = fp8_operand(d, {4, 8, 16, false, true, false}, 4, true, DType::e4m3, false),
                       b = fp8_operand(d, {4, 8, 32, false, true, false}, 8, true, DType::e4m3, false);
  ops::Fp8GemmArgs g;
  g.a = a.m, g.b = b.m;
  g.c = d.zeros(DType::bf16, {4, 8});
  g.trans_b = true;
  EXPECT_DEATH(ops::fp8_gemm(st, g), "is no c");
  EXPECT_DEATH((void)ops::fp8_form(st, g), "is no c");
}

TEST(Fp8GemmDeathTest, RefusesMemoryTooSmallForACopyAndCopiesOfTwoForms) {
  Data d;
  TestStream st;
  Fp8GemmOperand a = fp8_operand(d, {4, 8, 16, false, true, false}, 4, true, DType::e4m3, false);
  const Fp8GemmOperand b = fp8_operand(d, {4, 8, 16, false, true, false}, 8, true, DType::e4m3, false);
  ops::Fp8GemmArgs g;
  g.a = a.m, g.b = b.m;
  g.c = d.zeros(DType::bf16, {4, 8});
  g.trans_b = true;
  g.a.along.form = ops::Fp8Form::bytes;
  EXPECT_DEATH(ops::fp8_gemm(st, g), "two forms");
  a.m.along.memory = d.zeros(DType::u8, {127});
  EXPECT_DEATH(ops::fp8_quantize(st, a.work()), "127 bytes for a copy of 128");
}

}  // namespace mt::test
