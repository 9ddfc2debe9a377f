// Products with fp8 operands against sums in double over operands rounded by the definition of the formats.

#include <gtest/gtest.h>

#include "comm/device_ranks.h"
#include "nn/parallel_linear.h"
#include "ops/fp8_cases.h"
#include "params/rank_params.h"

namespace mt {
namespace {

using test::Doubles;
using test::I;
using test::z;

struct Matrix {
  I rows, columns;
  Doubles v;
  double at(I r, I c) const { return v[z(r * columns + c)]; }
};

Matrix matrix(const View& v) { return {v.dim(0), v.dim(1), test::values(v)}; }

// Blocks of 0: one scale, from `amax` or from the matrix itself.
Matrix rounded(const Matrix& m, DType format, I block_rows, I block_columns, double amax = 0) {
  Matrix out = m;
  const I br = block_rows > 0 ? block_rows : m.rows, bc = block_rows > 0 ? block_columns : m.columns;
  for (I r = 0; r < m.rows; r += br)
    for (I c = 0; c < m.columns; c += bc) {
      double most = amax;
      for (I i = r; amax == 0 && i < std::min(r + br, m.rows); ++i)
        for (I j = c; j < std::min(c + bc, m.columns); ++j) most = std::max(most, std::fabs(m.at(i, j)));
      const double s = test::pow2_scale(most, format, 0);
      for (I i = r; i < std::min(r + br, m.rows); ++i)
        for (I j = c; j < std::min(c + bc, m.columns); ++j)
          out.v[z(i * m.columns + j)] = test::nearest_fp8(m.at(i, j) * s, format) / s;
    }
  return out;
}

// Σ_k a(i, k)·b(k, j), with the sum of magnitudes, which bounds what an f32 sum may lose.
void expect_product(const View& got, I k, const std::function<double(I, I)>& a, const std::function<double(I, I)>& b,
                    double rounding) {
  const Doubles v = test::values(got);
  for (I i = 0; i < got.dim(0); ++i)
    for (I j = 0; j < got.dim(1); ++j) {
      double sum = 0, size = 0;
      for (I n = 0; n < k; ++n) sum += a(i, n) * b(n, j), size += std::fabs(a(i, n) * b(n, j));
      ASSERT_NEAR(v[z(i * got.dim(1) + j)], sum, size * 1e-6 + std::fabs(sum) * rounding) << i << ", " << j;
    }
}

// 150 tokens are no whole multiple of what fp8 hardware sums at once; 144 are.
class Fp8Products : public testing::TestWithParam<I> {};

TEST_P(Fp8Products, AreTheSumsOfRoundedOperands) {
  const I tokens = GetParam();
  for (const auto recipe : {Fp8Spec::Recipe::delayed, Fp8Spec::Recipe::tensorwise, Fp8Spec::Recipe::blockwise})
    test::on_device_ranks(1, [&](Communicator& world) {
      const Device device = test::rank_device(world);
      auto options = test::small_options({});
      options.hidden_size = 160;  // a block of 128 and a rest
      options.num_attention_heads = 4, options.num_query_groups = 4;
      ModelSpec model = build_model(options, 61);
      Fp8Spec spec;
      spec.recipe = recipe;
      spec.hybrid = true;
      use_fp8(model, spec);
      test::RankParams r(world, model, {}, DType::bf16, Stream::Mode::immediate,
                         ParameterStore::Gradients::present, device);
      const int weight = require_param(r.store, "decoder.layers.1.self_attention.linear_proj.weight");
      test::Data d(7);
      const View w = d.normal(DType::bf16, {160, 160}, 0.02), x = d.normal(DType::bf16, {tokens, 160}),
                 dy = d.normal(DType::bf16, {tokens, 160}, 1e-4), y = d.zeros(DType::bf16, {tokens, 160}),
                 dx = d.zeros(DType::bf16, {tokens, 160});
      copy_bytes(r.stream, r.store.weight(weight).data, w.data, w.bytes());
      Fp8State state(model, device);
      const Product p{weight, -1, 0, true, 3, 1};
      const double amax[] = {3, 0.5, 1e-3};  // of an earlier step: some of x lies beyond
      if (recipe == Fp8Spec::Recipe::delayed)
        for (int i = 0; i < 3; ++i) {
          const auto now = static_cast<float>(amax[i]);
          upload_bytes(r.stream, state.used(3, 1, static_cast<Fp8Operand>(i)).data, &now, sizeof now);
        }
      Arena scratch(device);
      Tokens none;
      Ctx ctx{r.stream, r.groups, r.store, scratch, none, 1, Mode::train, nullptr, {}, {}, &state, true};
      Arena kept(device);
      Flow flow;
      flow.kept = &kept;
      linear(ctx, p, x, y);
      linear_backward_input(ctx, flow, p, dy, dx);
      linear_backward_weight(ctx, flow, p, dy, x);
      const View grad = r.store.grad(weight), dw = d.zeros(grad.dtype, grad.shape);
      copy_bytes(r.stream, dw.data, grad.data, grad.bytes());
      r.stream.synchronize();
      const bool blocks = recipe == Fp8Spec::Recipe::blockwise, delayed = recipe == Fp8Spec::Recipe::delayed;
      const auto of = [&](const View& v, int operand, I br, I bc) {
        const DType format = operand == 2 ? DType::e5m2 : DType::e4m3;
        return rounded(matrix(v), format, blocks ? br : 0, blocks ? bc : 0,
                       delayed ? static_cast<double>(static_cast<float>(amax[operand])) : 0);
      };
      const Matrix qw = of(w, 1, 128, 128), qx = of(x, 0, 1, 128), qdy = of(dy, 2, 1, 128);
      const Matrix qx_down = of(x, 0, 128, 1), qdy_down = of(dy, 2, 128, 1);
      expect_product(y, 160, [&](I i, I k) { return qx.at(i, k); }, [&](I k, I j) { return qw.at(j, k); }, 0x1p-8);
      expect_product(dx, 160, [&](I i, I k) { return qdy.at(i, k); }, [&](I k, I j) { return qw.at(k, j); }, 0x1p-8);
      expect_product(dw, tokens, [&](I i, I k) { return qdy_down.at(k, i); },
                     [&](I k, I j) { return qx_down.at(k, j); }, 0);
      if (!delayed) return;
      for (int i = 0; i < 3; ++i) {
        double most = 0;
        for (double v : test::values(i == 0 ? x : i == 1 ? w : dy)) most = std::max(most, std::fabs(v));
        EXPECT_EQ(test::element<float>(r.stream, state.seen(3, 1, static_cast<Fp8Operand>(i))), static_cast<float>(most));
      }
      EXPECT_EQ(test::element<float>(r.stream, state.seen(3, 0, Fp8Operand::x)), 0.0f);
    });
}

// With weights kept, products are of the copies as they were made, until they are forgotten; and the same bits as without.
TEST(Fp8Weights, AreRoundedOnceUntilTheyAreForgotten) {
  for (const auto recipe : {Fp8Spec::Recipe::delayed, Fp8Spec::Recipe::tensorwise, Fp8Spec::Recipe::blockwise})
    test::on_device_ranks(1, [&](Communicator& world) {
      const Device device = test::rank_device(world);
      ModelSpec model = test::small_model({false, 8, 8, 61});
      Fp8Spec spec;
      spec.recipe = recipe;
      use_fp8(model, spec);
      test::RankParams r(world, model, {}, DType::bf16, Stream::Mode::immediate, ParameterStore::Gradients::present,
                         device);
      const int param = require_param(r.store, "decoder.layers.1.self_attention.linear_proj.weight");
      const View weight = r.store.weight(param);
      const I n = weight.dim(0);
      test::Data d(8);
      const View x = d.normal(DType::bf16, {48, n}), first = d.normal(DType::bf16, {n, n}, 0.1),
                 second = d.normal(DType::bf16, {n, n}, 0.3);
      const auto products = [&](Fp8State& state, View w) {
        copy_bytes(r.stream, weight.data, w.data, w.bytes());
        Arena scratch(device), kept(device);
        Tokens none;
        Ctx ctx{r.stream, r.groups, r.store, scratch, none, 1, Mode::train, nullptr, {}, {}, &state, true};
        Flow flow;
        flow.kept = &kept;
        const View y = d.zeros(DType::bf16, {48, n}), dx = d.zeros(DType::bf16, {48, n});
        const Product p{param, -1, 0, true, 3, 1};
        linear(ctx, p, x, y);
        linear_backward_input(ctx, flow, p, x, dx);
        r.stream.synchronize();
        Doubles out = test::values(y);
        for (const double v : test::values(dx)) out.push_back(v);
        return out;
      };
      Fp8State none(model, device), other(model, device);
      model.fp8.keep_weights = true;
      Fp8State keeps(model, device);
      const auto recorded = [&] { return test::element<float>(r.stream, keeps.seen(3, 1, Fp8Operand::weight)); };
      const bool delayed = recipe == Fp8Spec::Recipe::delayed;
      const Doubles of_first = products(none, first), of_second = products(other, second);
      EXPECT_NE(of_first, of_second);
      EXPECT_EQ(products(keeps, first), of_first);
      const float largest = delayed ? recorded() : 0;
      EXPECT_EQ(products(keeps, second), of_first) << "the copy";
      EXPECT_EQ(delayed ? recorded() : 0, largest);
      keeps.forget_weights();
      EXPECT_EQ(products(keeps, second), of_second);
      EXPECT_GT(delayed ? recorded() : 1, largest);
      EXPECT_EQ(none.weight_bytes(), 0u);
      EXPECT_EQ(keeps.weight_bytes(),
                static_cast<std::size_t>(fp8_weight_bytes(model.fp8, n, n, 2)));
    });
}

INSTANTIATE_TEST_SUITE_P(Tokens, Fp8Products, testing::Values(150, 144));

}  // namespace
}  // namespace mt
