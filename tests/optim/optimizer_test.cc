// The optimizer against AdamW in double, numbers worked out by hand, and a norm that counts each parameter once.

#include "optim/optimizer.h"

#include <cmath>
#include <limits>
#include <mutex>

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "params/rank_params.h"

namespace mt {
namespace {

using test::RankParams;

// A gradient as a function of the element's place, so every layout sees the same.
float gradient(const std::string& name, std::int64_t element, int step) {
  return static_cast<float>(static_cast<int>((name.size() * 31 + static_cast<std::size_t>(element) * 17 +
                                              static_cast<std::size_t>(step) * 101) % 201) - 100) / 512.0f;
}

void set_gradients(RankParams& r, const std::function<float(const std::string&, std::int64_t)>& value) {
  for (int p = 0; p < r.store.num_params(); ++p)
    for (const auto& piece : r.store.spec(p).pieces)
      test::for_each_element(r.store.grad(p), piece, [&](std::int64_t e, std::byte* at) {
        *reinterpret_cast<float*>(at) = value(piece.name, e);
      });
}

float at(const View& v, std::int64_t i) { return v.as<float>()[i]; }

TEST(Optimizer, ThreeStepsOfOneWeightAreTheNumbersWorkedOutInDouble) {
  test::on_ranks(1, [](Communicator& world) {
    RankParams r(world, test::small_model(), {});
    OptimizerOptions o;
    o.adam.beta2 = 0.95, o.clip_grad = 0;
    Optimizer optimizer(r.store, o, {});
    optimizer.initialize(r.stream, r.groups, 1);
    const int p = r.store.find("embedding.word_embeddings.weight");
    r.store.weight(p).as<float>()[0] = 0.5f;
    // w' = w(1 − 0.01·0.1) − 0.01·m̂/(sqrt(v̂) + 1e-8), β = 0.9, 0.95; by Python in double.
    const double want[3][3] = {{0.4895000003333333, 0.03, 0.0045},
                               {0.4875582554172119, 0.007, 0.006275},
                               {0.48505218176472525, 0.0113, 0.00608625}};
    const float gradients[3] = {0.3f, -0.2f, 0.05f};
    for (int step = 0; step < 3; ++step) {
      r.store.grad(p).as<float>()[0] = gradients[step];
      const auto result = optimizer.step(r.stream, r.groups, 0.01, 0.1);
      r.stream.synchronize();
      EXPECT_FLOAT_EQ(static_cast<float>(result.grad_norm), std::fabs(gradients[step]));
      EXPECT_NEAR(at(optimizer.master(p), 0), want[step][0], 5e-8) << step;
      // β is an f32: 1 − 0.95 is off by 5e-7 of itself.
      EXPECT_NEAR(at(optimizer.exp_avg(p), 0), want[step][1], 1e-6 * want[step][1]) << step;
      EXPECT_NEAR(at(optimizer.exp_avg_sq(p), 0), want[step][2], 1e-6 * want[step][2]) << step;
      EXPECT_EQ(optimizer.num_steps(), step + 1);
    }
    EXPECT_EQ(optimizer.master(p).data, r.store.weight(p).data) << "an f32 model is its own master";
  });
}

// AdamW in double over all parameters of a model, with decay on matrices alone and clipping that acts.
TEST(Optimizer, EveryParameterFollowsAdamwInDouble) {
  for (const DType compute : {DType::f32, DType::bf16})
    test::on_ranks(1, [&](Communicator& world) {
      RankParams r(world, test::small_model({false, 8, 2, 61}), {}, compute, Stream::Mode::deferred);
      OptimizerOptions o;
      o.adam.beta1 = 0.8, o.adam.beta2 = 0.9, o.adam.eps = 1e-6, o.clip_grad = 0.75;
      Optimizer optimizer(r.store, o, {});
      optimizer.initialize(r.stream, r.groups, 7);
      r.stream.synchronize();
      std::vector<std::vector<double>> w, m, v;
      for (int p = 0; p < r.store.num_params(); ++p) {
        const View master = optimizer.master(p);
        w.emplace_back(master.as<float>(), master.as<float>() + master.size());
        m.emplace_back(static_cast<std::size_t>(master.size()));
        v.emplace_back(static_cast<std::size_t>(master.size()));
      }
      for (int step = 1; step <= 4; ++step) {
        set_gradients(r, [&](const std::string& name, std::int64_t e) { return gradient(name, e, step); });
        double squares = 0;
        for (int p = 0; p < r.store.num_params(); ++p)
          for (std::int64_t i = 0; i < r.store.grad(p).size(); ++i)
            squares += static_cast<double>(at(r.store.grad(p), i)) * static_cast<double>(at(r.store.grad(p), i));
        const double norm = std::sqrt(squares), clip = std::min(1.0, 0.75 / (norm + 1e-6));
        ASSERT_LT(clip, 1.0);
        const auto result = optimizer.step(r.stream, r.groups, 1e-3, 0.1);
        r.stream.synchronize();
        EXPECT_NEAR(result.grad_norm, norm, 1e-12 * norm);
        EXPECT_FALSE(result.skipped);
        for (int p = 0; p < r.store.num_params(); ++p) {
          const auto P = static_cast<std::size_t>(p);
          double worst = 0;
          for (std::size_t i = 0; i < w[P].size(); ++i) {
            const double g = static_cast<double>(at(r.store.grad(p), static_cast<std::int64_t>(i))) * clip;
            m[P][i] = 0.8 * m[P][i] + 0.2 * g;
            v[P][i] = 0.9 * v[P][i] + 0.1 * g * g;
            const double decay = r.store.spec(p).shape.size() > 1 ? 0.1 : 0.0;
            w[P][i] = w[P][i] * (1 - 1e-3 * decay) - 1e-3 * (m[P][i] / (1 - std::pow(0.8, step))) /
                                                         (std::sqrt(v[P][i] / (1 - std::pow(0.9, step))) + 1e-6);
            worst = std::max(worst, std::fabs(w[P][i] - static_cast<double>(at(optimizer.master(p), static_cast<std::int64_t>(i)))));
          }
          EXPECT_LT(worst, 3e-7) << r.store.spec(p).name << " step " << step;
        }
      }
      if (compute != DType::bf16) return;
      for (int p = 0; p < r.store.num_params(); ++p) {  // the model's weights are the masters, rounded once
        EXPECT_NE(optimizer.master(p).data, r.store.weight(p).data);
        const auto* rounded = static_cast<const bf16*>(r.store.weight(p).data);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < optimizer.master(p).size(); ++i)
          wrong += rounded[i].bits != to_bf16(at(optimizer.master(p), i)).bits;
        EXPECT_EQ(wrong, 0) << r.store.spec(p).name;
      }
    });
}

struct Layout {
  int tp, dp;
  bool sequence_parallel, llama;
  int kv_heads;
};

std::vector<Layout> norm_layouts() {
  std::vector<Layout> out;
  for (bool llama : {false, true})
    for (int kv : {1, 2, 8})
      for (int tp : {1, 2, 4}) out.push_back({tp, tp == 2 ? 2 : 1, tp > 1, llama, kv});
  return out;
}

TEST(Optimizer, AllGradientsOneGivesTheRootOfTheNumberOfParameters) {
  for (const Layout& l : norm_layouts()) {
    const ModelSpec model = test::small_model({l.llama, 8, l.kv_heads, 61});
    test::on_ranks(l.tp * l.dp, [&](Communicator& world) {
      RankParams r(world, model, test::layout(l.tp, l.dp, l.sequence_parallel));
      Optimizer optimizer(r.store, {}, {});
      set_gradients(r, [](const std::string&, std::int64_t) { return 1.0f; });
      const auto result = optimizer.step(r.stream, r.groups, 0, 0);
      EXPECT_EQ(result.grad_norm, std::sqrt(static_cast<double>(num_parameters(model))))
          << "tp " << l.tp << " kv " << l.kv_heads << " llama " << l.llama << " rank " << world.rank();
    });
  }
}

TEST(Optimizer, EqualGradientsGiveTheIdenticalNormAndWeightsInEveryLayout) {
  for (bool llama : {false, true}) {
    const ModelSpec model = test::small_model({llama, 8, 2, 61});
    std::map<std::string, std::vector<float>> reference;
    double norm = 0;
    for (int tp : {1, 2, 4, 8}) {
      std::map<std::string, std::vector<float>> gathered;
      std::mutex mutex;
      test::on_ranks(tp, [&](Communicator& world) {
        RankParams r(world, model, test::layout(tp, 1));
        Optimizer optimizer(r.store, {}, {});
        optimizer.initialize(r.stream, r.groups, 5);
        double mine = 0;
        for (int step = 0; step < 3; ++step) {
          set_gradients(r, [&](const std::string& n, std::int64_t e) { return gradient(n, e, step); });
          mine = optimizer.step(r.stream, r.groups, 1e-2, 0.1).grad_norm;
        }
        const std::lock_guard lock(mutex);
        if (norm == 0) norm = mine;
        EXPECT_EQ(mine, norm) << "tp " << tp;
        for (int p = 0; p < r.store.num_params(); ++p)
          for (const auto& piece : r.store.spec(p).pieces) {
            auto& to = gathered[piece.name];
            to.resize(static_cast<std::size_t>(num_elements(piece.shape)));
            test::for_each_element(optimizer.master(p), piece, [&](std::int64_t e, std::byte* from) {
              to[static_cast<std::size_t>(e)] = *reinterpret_cast<float*>(from);
            });
          }
      });
      if (tp == 1) reference = gathered;
      EXPECT_EQ(gathered, reference) << "tp " << tp;
    }
  }
}

TEST(Optimizer, ClippingScalesOnlyNormsAboveTheLimit) {
  const auto moments_after = [](double limit, float g) {
    float m = 0;
    test::on_ranks(1, [&](Communicator& world) {
      RankParams r(world, test::small_model(), {});
      OptimizerOptions o;
      o.clip_grad = limit;
      Optimizer optimizer(r.store, o, {});
      r.store.grad(0).as<float>()[3] = g;
      (void)optimizer.step(r.stream, r.groups, 1e-3, 0);
      m = at(optimizer.exp_avg(0), 3);
    });
    return m;
  };
  const float tenth = 1.0f - 0.9f;
  EXPECT_FLOAT_EQ(moments_after(1.0, 0.5f), 0.5f * tenth) << "below the limit nothing is scaled";
  EXPECT_FLOAT_EQ(moments_after(1.0, 1.0f), static_cast<float>(1 / (1 + 1e-6)) * tenth) << "limit / (norm + 1e-6)";
  EXPECT_FLOAT_EQ(moments_after(1.0, 8.0f), tenth);
  EXPECT_FLOAT_EQ(moments_after(0.25, -8.0f), -0.25f * tenth);
  EXPECT_FLOAT_EQ(moments_after(0, 8.0f), 8 * tenth) << "0 turns it off";
}

TEST(Optimizer, ANonFiniteGradientOnAnyRankChangesNothingAnywhere) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    test::on_ranks(4, [&](Communicator& world) {
      RankParams r(world, test::small_model({true, 8, 2, 61}), test::layout(4, 1));
      Optimizer optimizer(r.store, {}, {});
      optimizer.initialize(r.stream, r.groups, 5);
      std::vector<float> before(r.store.weight(0).as<float>(), r.store.weight(0).as<float>() + r.store.weight(0).size());
      set_gradients(r, [](const std::string&, std::int64_t) { return 1.0f; });
      const int q = r.store.find("decoder.layers.1.mlp.linear_fc2.weight");
      if (world.rank() == 2) r.store.grad(q).as<float>()[5] = bad;
      const auto result = optimizer.step(r.stream, r.groups, 1e-2, 0.1);
      EXPECT_TRUE(result.skipped);
      EXPECT_TRUE(std::isnan(result.grad_norm));
      EXPECT_EQ(optimizer.num_steps(), 0);
      EXPECT_EQ(std::vector<float>(r.store.weight(0).as<float>(), r.store.weight(0).as<float>() + r.store.weight(0).size()), before);
      EXPECT_EQ(at(optimizer.exp_avg(0), 0), 0.0f);
    });
}

// Padding rows of the vocabulary belong to no piece: they start at zero and are never drawn.
TEST(Optimizer, PaddingRowsStartAtZero) {
  test::on_ranks(8, [](Communicator& world) {
    RankParams r(world, test::small_model({true, 8, 2, 5}), test::layout(8, 1), DType::bf16);
    Optimizer optimizer(r.store, {}, {});
    optimizer.initialize(r.stream, r.groups, 5);
    const View w = optimizer.master(0);
    for (std::int64_t i = r.store.spec(0).pieces[0].box.size(); i < w.size(); ++i) EXPECT_EQ(at(w, i), 0.0f);
  });
}

// Mixed precision: weights 2 + gradients 4, or 2 in bf16, + master and moments 12, each divided where it is sharded.
TEST(Optimizer, HoldsThePublishedBytesPerParameterAtEveryZeroStage) {
  using Gradients = ParameterStore::Gradients;
  for (const auto& [dp, gradients] : {std::pair{2, Gradients::present}, {4, Gradients::present}, {2, Gradients::bf16}, {4, Gradients::bf16}}) {
    for (int stage : {0, 1, 2, 3}) {
      test::on_ranks(dp, [&, dp = dp, gradients = gradients](Communicator& world) {
        RankParams r(world, test::small_model(), test::layout(1, dp, false, stage), DType::bf16, Stream::Mode::immediate,
                     gradients);
        const Optimizer optimizer(r.store, {}, {});
        const auto& plan = r.store.plan();
        const double d = dp, g = gradients == Gradients::bf16 ? 2 : 4;
        const double wanted[] = {14 + g, 2 + g + 12 / d, 2 + (12 + g) / d, (14 + g) / d};
        if (g == 4) {
          EXPECT_EQ(wanted[2], 2 + 16 / d) << "as published";
        } else {
          EXPECT_EQ(wanted[2], 2 + 14 / d) << "as published";
        }
        std::size_t second_slots = 0;  // a tied embedding's output side
        for (const auto& b : plan.buckets)
          if (r.store.spec(b.first_param).grad_slots == 2)
            second_slots += static_cast<std::size_t>((stage < 2 ? b.size() : b.own_size())) * static_cast<std::size_t>(g);
        const auto held = static_cast<double>(r.store.weight_bytes() + r.store.grad_bytes() - second_slots);
        // Optimizer state exists for true elements under ZeRO: this rank's own, within its padded part.
        const double state = static_cast<double>(optimizer.state_bytes());
        const double own = static_cast<double>(plan.total) / (stage > 0 ? d : 1);
        EXPECT_LE(state, own * 12);
        EXPECT_LE(held + state, wanted[stage] * static_cast<double>(plan.total));
        EXPECT_EQ(held, (stage == 3 ? (2 + g) / d : stage == 2 ? 2 + g / d : 2 + g) * static_cast<double>(plan.total));
        std::int64_t mine = static_cast<std::int64_t>(state / 12), all = 0;
        Communicator& group = *r.groups.dp_cp;
        all = mine;
        group.all_reduce(r.stream, View(&all, DType::i64, {1}), Reduce::sum).wait_host();
        std::int64_t params = 0;
        for (const auto& s : r.store.specs()) params += s.elements();
        if (stage > 0) {
          EXPECT_EQ(all, params) << "each element has one owner";
        }
      });
    }
  }
}

}  // namespace
}  // namespace mt
