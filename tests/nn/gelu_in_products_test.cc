// GPT's feed-forward with GELU inside its products, as CUDA has it in 16 bits, against the same layer with GELU on its own.

#include <gtest/gtest.h>

#include "comm/device_ranks.h"
#include "nn/model.h"
#include "ops/op_case.h"
#include "params/rank_params.h"
#include "tensor/tensor.h"

namespace mt {
namespace {

using test::Doubles;
using test::I;

constexpr I kTokens = 32;

// What comes out of the layer and back, by name.
std::map<std::string, Doubles> run_mlp(DType dtype, const RecomputeSpec& recompute) {
  std::map<std::string, Doubles> out;
  test::on_device_ranks(1, [&](Communicator& world) {
    const Device device = test::rank_device(world);
    const ModelSpec spec = test::small_model({false, 8, 8, 61});
    ParallelSpec parallel;
    parallel.recompute = recompute;
    test::RankParams r(world, spec, parallel, dtype, Stream::Mode::immediate, ParameterStore::Gradients::present, device);
    test::Data d(3);
    for (int p = 0; p < r.store.num_params(); ++p) {
      const View w = r.store.weight(p), values = d.normal(dtype, w.shape, 0.2);
      copy_bytes(r.stream, w.data, values.data, w.bytes());
    }
    const Model model(spec, {16, 2, 2}, r.groups, r.store, 0, device);
    const auto& layers = model.layers();
    const auto it = std::find_if(layers.begin(), layers.end(), [](const SubLayer& s) { return s.name.ends_with(".mlp"); });
    ASSERT_NE(it, layers.end());
    const SubLayer& mlp = *it;
    const DType stream = residual_dtype(spec, dtype);
    const Shape shape{kTokens, spec.hidden};
    Arena scratch(device), kept(device);
    Tokens none;
    Ctx ctx{r.stream, r.groups, r.store, scratch, none, 1, Mode::evaluate};
    Flow f;
    f.x = d.normal(stream, shape), f.dy = d.normal(stream, shape), f.y = d.zeros(stream, shape), f.dx = d.zeros(stream, shape);
    f.kept = &kept;
    Saved saved = allocate_saved(kept, kept, mlp, f.x);
    f.saved = &saved;
    r.store.zero_grads(r.stream);
    run(mlp.forward, ctx, f);
    if (!mlp.recompute.empty()) {
      allocate_again(kept, kept, mlp, f.x, saved);
      run(mlp.recompute, ctx, f);
    }
    run(mlp.backward_input, ctx, f);
    run(mlp.backward_weight, ctx, f);
    r.stream.synchronize();
    out["y"] = test::values(f.y), out["dx"] = test::values(f.dx);
    for (int p = 0; p < r.store.num_params(); ++p) {
      if (r.store.spec(p).unit != mlp.unit) continue;
      const View grad = r.store.grad(p), copy = d.zeros(grad.dtype, grad.shape);
      copy_bytes(r.stream, copy.data, grad.data, grad.bytes());
      r.stream.synchronize();
      out[r.store.spec(p).pieces[0].name] = test::values(copy);
    }
  });
  return out;
}

double largest(const Doubles& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::fabs(x));
  return most;
}

RecomputeSpec selective(bool mlp, bool mlp_act) {
  RecomputeSpec s;
  s.granularity = RecomputeSpec::Granularity::selective;
  s.mlp = mlp, s.mlp_act = mlp_act;
  return s;
}

TEST(GeluInProducts, GivesWhatTheLayerGivesWithoutIt) {
  const auto got = run_mlp(DType::bf16, {}), alone = run_mlp(DType::bf16, selective(false, true)),
             exact = run_mlp(DType::f32, {});
  ASSERT_EQ(got.size(), 8u) << "y, dx, weight and bias of norm, fc1 and fc2";
  bool differs = false;
  for (const auto& [name, values] : got) {
    const Doubles &other = alone.at(name), &f32 = exact.at(name);
    ASSERT_EQ(values.size(), other.size()) << name;
    differs = differs || values != other;
    const double size = largest(f32);
    EXPECT_GT(size, 0) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], other[i], 0.03 * size) << name << " " << i;
      ASSERT_NEAR(values[i], f32[i], 0.05 * size) << name << " " << i;
    }
  }
  EXPECT_EQ(differs, !test::on_cpu()) << "on a CPU nothing is fused";
}

TEST(GeluInProducts, IsMadeAgainToTheBitWithItsProduct) {
  EXPECT_EQ(run_mlp(DType::bf16, selective(true, false)), run_mlp(DType::bf16, {}));
}

}  // namespace
}  // namespace mt
