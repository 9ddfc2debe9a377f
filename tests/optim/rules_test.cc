// Every update rule over all parameters of a model against the same rule in double: several steps, decay on matrices
// alone, clipping that acts, a loss scale; and layouts that give equal bits for equal gradients.

#include <cmath>

#include <gtest/gtest.h>

#include "optim/orthogonal_reference.h"
#include "optim/shard_values.h"

namespace mt {
namespace {

using test::RankParams;
using test::Tensors;
using Doubles = std::map<std::string, std::vector<double>>;

constexpr double kLr = 1e-3, kDecay = 0.1, kLossScale = 4;

OptimizerOptions options_of(UpdateRule rule) {
  OptimizerOptions o;
  o.rule = rule;
  o.adam = {0.8, 0.9, 1e-6};
  o.sgd_momentum = 0.7;
  o.lion = {0.9, 0.95};
  o.muon.momentum = 0.6;
  o.muon.extra_scale = 0.2;
  o.clip_grad = 0.75;
  return o;
}

// Logical tensors that are orthogonalised together, or empty.
std::vector<std::string> matrix_of(const std::string& name, const OptimizerOptions& o) {
  if (o.rule != UpdateRule::muon || name.find("decoder.layers.") != 0 || name.find(".weight") == std::string::npos ||
      name.find("layernorm") != std::string::npos)
    return {};
  const auto like = [&](const char* from, const char* to) {
    const std::size_t at = name.find(from);
    return at == std::string::npos ? "" : name.substr(0, at) + to + ".weight";
  };
  if (const auto up = like("linear_fc1_gate", "linear_fc1_up"); !up.empty()) return {name, up};
  if (!like("linear_fc1_up", "").empty()) return {like("linear_fc1_up", "linear_fc1_gate"), name};
  if (!o.muon.split_qkv)
    for (const char* part : {"linear_q.", "linear_k.", "linear_v."})
      if (const std::size_t at = name.find(part); at != std::string::npos) {
        const std::string to = name.substr(0, at);
        return {to + "linear_q.weight", to + "linear_k.weight", to + "linear_v.weight"};
      }
  return {name};
}

// One step of a rule in double.
struct Reference {
  OptimizerOptions o;
  std::map<std::string, Dims> shapes;
  Doubles w, m, v;
  int step = 0;

  void take(double clip) {
    ++step;
    for (auto& [name, weights] : w) {
      const double decay = shapes[name].size() > 1 ? kDecay : 0;
      m[name].resize(weights.size()), v[name].resize(weights.size());
      if (!matrix_of(name, o).empty()) continue;
      for (std::size_t i = 0; i < weights.size(); ++i)
        one(name, i, static_cast<double>(test::gradient(name, static_cast<std::int64_t>(i), step)) * clip, decay);
    }
    for (auto& [name, weights] : w)
      if (const auto parts = matrix_of(name, o); !parts.empty() && parts.front() == name) orthogonal(parts, clip);
  }

  void one(const std::string& name, std::size_t i, double g, double decay) {
    double &x = w[name][i], &a = m[name][i], &b = v[name][i];
    if (o.rule == UpdateRule::sgd) {
      a = o.sgd_momentum * a + g + decay * x;
      x -= kLr * a;
    } else if (o.rule == UpdateRule::lion) {
      const double c = o.lion.beta1 * a + (1 - o.lion.beta1) * g;
      x = x * (1 - kLr * decay) - kLr * (c > 0 ? 1 : c < 0 ? -1 : 0);
      a = o.lion.beta2 * a + (1 - o.lion.beta2) * g;
    } else {
      a = o.adam.beta1 * a + (1 - o.adam.beta1) * g;
      b = o.adam.beta2 * b + (1 - o.adam.beta2) * g * g;
      x = x * (1 - kLr * decay) - kLr * (a / (1 - std::pow(o.adam.beta1, step))) /
                                      (std::sqrt(b / (1 - std::pow(o.adam.beta2, step))) + o.adam.eps);
    }
  }

  void orthogonal(const std::vector<std::string>& parts, double clip) {
    int rows = 0;
    const int cols = static_cast<int>(shapes[parts[0]][1]);
    for (const auto& p : parts) rows += static_cast<int>(shapes[p][0]);
    test::Matrix u(rows, cols);
    std::size_t at = 0;
    for (const auto& p : parts)
      for (std::size_t i = 0; i < m[p].size(); ++i) {
        const double mu = o.muon.momentum, g = static_cast<double>(test::gradient(p, static_cast<std::int64_t>(i), step)) * clip;
        m[p][i] = mu * m[p][i] + (1 - mu) * g;
        u.v[at++] = o.muon.nesterov ? mu * m[p][i] + (1 - mu) * g : m[p][i];
      }
    const test::Matrix orthogonal = test::newton_schulz_in_double(u, 5);
    const double scale = muon_scale(o.muon, rows, cols);
    at = 0;
    for (const auto& p : parts)
      for (double& x : w[p]) x = x * (1 - kLr * kDecay) - kLr * scale * orthogonal.v[at++];
  }
};

double clip_factor(const Reference& r, double limit) {
  double squares = 0;
  for (const auto& [name, weights] : r.w)
    for (std::size_t i = 0; i < weights.size(); ++i)
      squares += std::pow(static_cast<double>(test::gradient(name, static_cast<std::int64_t>(i), r.step + 1)) / kLossScale, 2);
  const double clip = limit / (std::sqrt(squares) + 1e-6);
  EXPECT_LT(clip, 1);
  return clip / kLossScale;
}

double worst_of(const Tensors& got, const Doubles& want) {
  double worst = 0;
  for (const auto& [name, values] : got)
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(values[i]) - want.at(name)[i]));
  return worst;
}

void expect_follows(const OptimizerOptions& o, DType compute, double bound) {
  test::on_ranks(1, [&](Communicator& world) {
    RankParams r(world, test::small_model({true, 8, 2, 61}), {}, compute, Stream::Mode::deferred);
    Optimizer optimizer(r.store, o, {});
    optimizer.initialize(r.stream, r.groups, 7);
    r.stream.synchronize();
    Reference reference{o, {}, {}, {}, {}};
    Tensors start;
    test::gather(r, optimizer, "master", start);
    for (const auto& spec : r.store.specs())
      for (const auto& piece : spec.pieces) reference.shapes[piece.name] = piece.shape;
    for (const auto& [name, values] : start) reference.w[name].assign(values.begin(), values.end());
    for (int step = 1; step <= 4; ++step) {
      const double clip = clip_factor(reference, o.clip_grad);
      test::set_gradients(r, step);
      const auto result = optimizer.step(r.stream, r.groups, kLr, kDecay, kLossScale);
      r.stream.synchronize();
      EXPECT_FALSE(result.skipped);
      reference.take(clip);
      Tensors now;
      test::gather(r, optimizer, "master", now);
      EXPECT_LT(worst_of(now, reference.w), bound) << "step " << step;
    }
    if (compute == DType::f32) return;
    for (int p = 0; p < r.store.num_params(); ++p) {  // the model's weights are the masters, rounded once
      const auto* rounded = static_cast<const bf16*>(r.store.weight(p).data);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < optimizer.master(p).size(); ++i)
        wrong += rounded[i].bits != to_bf16(optimizer.master(p).as<float>()[i]).bits;
      EXPECT_EQ(wrong, 0) << r.store.spec(p).name;
    }
  });
}

TEST(UpdateRules, SgdFollowsItsFormulaInDouble) {
  auto o = options_of(UpdateRule::sgd);
  for (DType compute : {DType::f32, DType::bf16}) expect_follows(o, compute, 3e-7);
  o.sgd_momentum = 0;
  expect_follows(o, DType::f32, 3e-7);
}

TEST(UpdateRules, LionFollowsItsFormulaInDouble) {
  for (DType compute : {DType::f32, DType::bf16}) expect_follows(options_of(UpdateRule::lion), compute, 3e-7);
}

TEST(UpdateRules, MuonFollowsItsFormulaInDouble) {
  auto o = options_of(UpdateRule::muon);
  for (DType compute : {DType::f32, DType::bf16}) expect_follows(o, compute, 1e-6);
  o.muon.nesterov = true;
  o.muon.scale = MuonOptions::Scale::shape_scaling;
  expect_follows(o, DType::f32, 1e-6);
  o.muon.split_qkv = false;
  o.muon.scale = MuonOptions::Scale::unit_rms_norm;
  expect_follows(o, DType::f32, 1e-6);
}

TEST(UpdateRules, MuonsScaleIsByShape) {
  MuonOptions o;
  o.extra_scale = 0.5;
  EXPECT_DOUBLE_EQ(muon_scale(o, 4, 9), 1.5);
  EXPECT_DOUBLE_EQ(muon_scale(o, 16, 9), 2);
  o.scale = MuonOptions::Scale::unit_rms_norm;
  EXPECT_DOUBLE_EQ(muon_scale(o, 4, 9), 1.0 / 3);
  o.scale = MuonOptions::Scale::shape_scaling;
  EXPECT_DOUBLE_EQ(muon_scale(o, 4, 9), 0.5);
  EXPECT_DOUBLE_EQ(muon_scale(o, 36, 4), 1.5);
}

struct Layout {
  int tp, dp, zero;
};

// Master weights after three steps of equal gradients.
Tensors after_steps(const OptimizerOptions& o, const ModelSpec& model, const Layout& l, DType compute = DType::f32) {
  Tensors out;
  test::on_ranks(l.tp * l.dp, [&](Communicator& world) {
    RankParams r(world, model, test::layout(l.tp, l.dp, false, l.zero), compute,
                 l.dp == 3 ? Stream::Mode::deferred : Stream::Mode::immediate);
    Optimizer optimizer(r.store, o, {});
    optimizer.initialize(r.stream, r.groups, 5);
    for (int step = 0; step < 3; ++step) {
      test::set_gradients(r, step);
      (void)optimizer.step(r.stream, r.groups, 1e-2, 0.1);
      r.stream.synchronize();
    }
    test::gather(r, optimizer, "master", out);
  });
  return out;
}

TEST(UpdateRules, EqualGradientsGiveEqualBitsInEveryLayout) {
  for (const UpdateRule rule : {UpdateRule::adam, UpdateRule::sgd, UpdateRule::lion, UpdateRule::muon})
    for (const bool llama : {false, true}) {
      const ModelSpec model = test::small_model({llama, 8, 2, 61});
      const auto o = options_of(rule);
      const Tensors one = after_steps(o, model, {1, 1, 0});
      for (const Layout& l : {Layout{2, 1, 0}, {4, 1, 0}, {1, 3, 1}, {2, 2, 1}, {4, 2, 2}, {2, 3, 3}})
        EXPECT_TRUE(after_steps(o, model, l) == one)
            << update_rule_name(rule) << " tp " << l.tp << " dp " << l.dp << " zero " << l.zero;
    }
}

TEST(UpdateRules, MuonOverAWholeQkvIsLayoutFreeToo) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});
  auto o = options_of(UpdateRule::muon);
  o.muon.split_qkv = false;
  const Tensors one = after_steps(o, model, {1, 1, 0}, DType::bf16);
  EXPECT_TRUE(after_steps(o, model, {4, 2, 1}, DType::bf16) == one);
  o.muon.split_qkv = true;
  EXPECT_FALSE(after_steps(o, model, {1, 1, 0}, DType::bf16) == one);
}

// Without tensor parallelism it is the same; with it, each rank's part is its own matrix, whatever ZeRO does.
TEST(UpdateRules, BlockwiseMuonDependsOnTensorParallelismAlone) {
  const ModelSpec model = test::small_model({true, 8, 2, 61});
  auto o = options_of(UpdateRule::muon);
  const Tensors whole = after_steps(o, model, {1, 1, 0});
  o.muon.blockwise = true;
  EXPECT_TRUE(after_steps(o, model, {1, 1, 0}) == whole);
  EXPECT_TRUE(after_steps(o, model, {1, 3, 1}) == whole);
  const Tensors cut = after_steps(o, model, {2, 1, 0});
  EXPECT_FALSE(cut == whole);
  EXPECT_TRUE(after_steps(o, model, {2, 2, 2}) == cut);
}

TEST(UpdateRules, StateIsWhatEachRuleKeeps) {
  test::on_ranks(1, [](Communicator& world) {
    RankParams r(world, test::small_model(), {}, DType::bf16);
    std::size_t padded = 0, matrices = 0;
    for (const auto& s : r.store.specs()) {
      const auto n = static_cast<std::size_t>((s.elements() + 63) / 64 * 64);
      padded += n;
      if (is_layer_matrix(s)) matrices += n;
    }
    const auto bytes = [&](UpdateRule rule, double momentum = 0.9) {
      auto o = options_of(rule);
      o.sgd_momentum = momentum;
      return Optimizer(r.store, o, {}).state_bytes();
    };
    EXPECT_EQ(bytes(UpdateRule::adam), padded * 12);
    EXPECT_EQ(bytes(UpdateRule::sgd), padded * 8);
    EXPECT_EQ(bytes(UpdateRule::sgd, 0), padded * 4);
    EXPECT_EQ(bytes(UpdateRule::lion), padded * 8);
    EXPECT_EQ(bytes(UpdateRule::muon), padded * 12 - matrices * 4);
  });
}

}  // namespace
}  // namespace mt
