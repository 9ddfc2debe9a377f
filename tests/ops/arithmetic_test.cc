#include "ops/arithmetic.h"

#include <gtest/gtest.h>

#include "ops/op_test.h"

namespace mt::test {

namespace {

std::vector<OpCase> arithmetic_cases() {
  std::vector<OpCase> out;
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (I n : {7, 5000, 140000}) {
      out.push_back({fmt::format("add {} {}", n, dtype_name(t)), [=] {
                       Prepared p;
                       const View a = p.data->normal(t, {n}), b = p.data->normal(t, {n}), c = p.data->zeros(t, {n});
                       p.run = [=](Stream& st) { ops::add(st, {a, b, c}); };
                       p.outputs = {{"out", c, plus(values(a), values(b)), tolerance(t)}};
                       return p;
                     }});
      out.push_back({fmt::format("scale {} {}", n, dtype_name(t)), [=] {
                       Prepared p;
                       const View a = p.data->normal(t, {n}), c = p.data->zeros(DType::f32, {n}),
                                  f = p.data->list(DType::f32, {-3});
                       Doubles want = values(a);
                       for (double& w : want) w *= -1.5;
                       p.run = [=](Stream& st) { ops::scale(st, {a, c, 0.5f, f.as<float>()}); };
                       p.outputs = {{"out", c, want, 1e-6}};
                       return p;
                     }});
    }
  for (auto [rows, grad] : {std::pair<I, DType>{1, DType::f32}, {130, DType::f32}, {1000, DType::f32}, {1000, DType::bf16}})
    out.push_back({fmt::format("column_sum of {} into {}", rows, dtype_name(grad)), [rows = rows, grad = grad] {
                     Prepared p;
                     const View x = p.data->normal(DType::bf16, {rows, 300}).slice(1, 0, 290),
                                sum = p.data->normal(grad, {290});
                     Doubles want = values(sum);
                     const Doubles v = values(x);
                     for (I t = 0; t < rows; ++t)
                       for (I i = 0; i < 290; ++i) want[z(i)] += v[z(t * 290 + i)];
                     p.run = [=](Stream& st) { ops::column_sum(st, {x, sum}); };
                     p.outputs = {{"out", sum, want, tolerance(grad, 1e-5)}};
                     return p;
                   }});
  return out;
}

}  // namespace

MT_OP_TESTS(Arithmetic, arithmetic_cases())

TEST(Arithmetic, FillReachesEveryElementOfEveryDtype) {
  Data d;
  TestStream st(2);
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64}) {
    const View v = d.zeros(t, {70001});
    ops::fill(st, v, -3);
    EXPECT_EQ(values(v), Doubles(70001, -3.0)) << dtype_name(t);
  }
}

TEST(Arithmetic, CastRoundsToNearestEvenAndFollowsStrides) {
  Data d;
  TestStream st;
  const View x = d.normal(DType::f32, {6, 5, 7}), y = d.zeros(DType::bf16, {6, 9, 8}).slice(1, 2, 7).slice(2, 0, 7);
  ops::cast(st, {x, y});
  Doubles want;
  for (double v : values(x)) want.push_back(static_cast<double>(to_f32(to_bf16(static_cast<float>(v)))));
  EXPECT_EQ(values(y), want);
  // Back through f16, transposed views: element by element.
  View turned = d.zeros(DType::f16, {7, 6, 5}), back = turned;
  back.shape = {6, 5, 7};
  back.strides = {5, 1, 30};
  ops::cast(st, {y, back});
  const View again = d.zeros(DType::bf16, {6, 5, 7});
  ops::cast(st, {back, again});
  const Doubles got = values(again);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]);
}

// Every pattern of 16 bits, and the f32 neighbours of each: the vector loops equal base/dtype.h's scalar conversions.
TEST(Arithmetic, CastsOfEveryPatternEqualTheScalarConversions) {
  Data d;
  TestStream st;
  for (DType t : {DType::bf16, DType::f16}) {
    const View half = d.zeros(t, {65536}), wide = d.zeros(DType::f32, {65536});
    for (I i = 0; i < 65536; ++i) static_cast<std::uint16_t*>(half.data)[i] = static_cast<std::uint16_t>(i);
    ops::cast(st, {half, wide});
    TestStream::settle();
    int wrong = 0;
    for (I i = 0; i < 65536; ++i) {
      const auto b = static_cast<std::uint16_t>(i);
      const float scalar = t == DType::bf16 ? to_f32(bf16{b}) : to_f32(f16{b});
      const float got = wide.as<float>()[i];
      wrong += std::isnan(scalar) ? !std::isnan(got) : std::memcmp(&scalar, &got, 4) != 0;
    }
    EXPECT_EQ(wrong, 0) << dtype_name(t);
    for (int step : {-1, 0, 1, 0x7fff, 0x8000, 0x8001}) {
      const View near = d.copy(wide), rounded = d.zeros(t, {65536});
      for (I i = 0; i < 65536; ++i)
        near.as<float>()[i] =
            std::bit_cast<float>(std::bit_cast<std::uint32_t>(wide.as<float>()[i]) + static_cast<std::uint32_t>(step));
      ops::cast(st, {near, rounded});
      TestStream::settle();
      for (I i = 0; i < 65536; ++i) {
        const float f = near.as<float>()[i];
        const std::uint16_t scalar = t == DType::bf16 ? to_bf16(f).bits : to_f16(f).bits;
        wrong += scalar != static_cast<std::uint16_t*>(rounded.data)[i];
      }
      EXPECT_EQ(wrong, 0) << dtype_name(t) << " step " << step;
    }
  }
}

}  // namespace mt::test
