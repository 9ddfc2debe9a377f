// Lanes give the same gradients whatever their order, and what only a whole model shows: progress, memory, batches.

#include "engine/executor.h"

#include <gtest/gtest.h>

#include "params/rank_params.h"

namespace mt {
namespace {

constexpr int kSeq = 16;

HostBatch batch_of(const ModelSpec& model, int sequences, int first) {
  HostBatch b;
  b.cu_seqlens.push_back(0);
  for (int s = 0; s < sequences; ++s) {
    for (int t = 0; t < kSeq; ++t) {
      const int n = (first + s) * 37 + t * 11;
      b.ids.push_back(n % static_cast<int>(model.vocab_size));
      b.labels.push_back((n + 5) % static_cast<int>(model.vocab_size));
      b.mask.push_back(n % 7 == 0 ? 0.0f : 1.0f);
      b.ordinals.push_back(first + s);
      b.positions.push_back(t);
    }
    b.cu_seqlens.push_back((s + 1) * kSeq);
  }
  return b;
}

void set_weights(test::RankParams& r) {
  for (int p = 0; p < r.store.num_params(); ++p)
    for (const auto& piece : r.store.spec(p).pieces)
      test::for_each_element(r.store.weight(p), piece, [&](std::int64_t e, std::byte* at) {
        *reinterpret_cast<float*>(at) = piece.init.kind == Init::Kind::one ? 1.0f : static_cast<float>(e * 29 % 41 - 20) / 300;
      });
}

using Floats = std::vector<float>;

struct Passes {
  std::vector<Floats> gradients, losses;
  std::vector<Step> steps;
};

Passes run(Communicator& world, const ModelSpec& model, const ParallelSpec& parallel, const Schedule& schedule,
           Stream::Mode mode, int micro_batches) {
  test::RankParams r(world, model, parallel, DType::f32, mode);
  set_weights(r);
  const BatchSpec shape{kSeq, 2, 2 * micro_batches};
  const Model net(model, shape, r.groups, r.store, 0, {});
  Executor executor(ExecutorParts{r.stream, r.groups, r.store, 9}, net, shape, {});
  std::vector<HostBatch> batches;
  for (int m = 0; m < micro_batches; ++m) batches.push_back(batch_of(model, 2, 2 * m));
  Passes out;
  for (int again = 0; again < 2; ++again) {  // the second step finds used arenas
    out.steps.clear();
    r.store.zero_grads(r.stream);
    out.losses = executor.run_lane(schedule.lanes[0], batches, 1.0 / 64, [&](const Step& s) { out.steps.push_back(s); });
    std::vector<Floats> now;
    for (int p = 0; p < r.store.num_params(); ++p)
      now.emplace_back(r.store.grad(p).as<float>(), r.store.grad(p).as<float>() + r.store.grad(p).size());
    if (again == 1) {
      EXPECT_EQ(now, out.gradients) << "the same step twice";
    }
    out.gradients = std::move(now);
  }
  return out;
}

TEST(Executor, SchedulesOfOneStageGiveTheSameBits) {
  for (const bool llama : {false, true})
    test::on_ranks(2, [&](Communicator& world) {
      const ModelSpec model = test::small_model({llama, 8, 2, 61});  // dropout 0.1
      const auto parallel = test::layout(2, 1, true);
      const auto a = run(world, model, parallel, one_f_one_b(1, 3), Stream::Mode::immediate, 3);
      const auto b = run(world, model, parallel, gpipe(1, 3), Stream::Mode::immediate, 3);
      const auto c = run(world, model, parallel, gpipe(1, 3), Stream::Mode::deferred, 3);
      EXPECT_EQ(a.losses, b.losses);
      EXPECT_EQ(a.gradients, b.gradients);
      EXPECT_EQ(a.losses, c.losses);
      EXPECT_EQ(a.gradients, c.gradients);
      EXPECT_EQ(b.steps, gpipe(1, 3).lanes[0]) << "on_step saw every step";
      EXPECT_NE(a.losses[0], a.losses[1]);
    });
}

TEST(Executor, MicroBatchesOfAStepAddUpToTheStep) {
  test::on_ranks(1, [&](Communicator& world) {
    ModelOptions o = test::small_options({true, 8, 2, 61});
    const ModelSpec model = build_model(o, 61);
    const auto all = run(world, model, {}, one_f_one_b(1, 4), Stream::Mode::immediate, 4);
    ASSERT_EQ(all.losses.size(), 4u);
    for (const auto& l : all.losses) {
      ASSERT_EQ(l.size(), 32u);
      for (float x : l) EXPECT_GT(x, 0.0f) << "unmasked ones have a loss too";
    }
    double largest = 0;
    for (const auto& g : all.gradients)
      for (float x : g) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    EXPECT_GT(largest, 1e-3);
  });
}

TEST(HostBatch, CountsWhatItsMaskLetsThrough) {
  HostBatch b;
  EXPECT_EQ(b.unmasked(), 0);
  b.mask = {1, 0, 1, 1, 0};
  EXPECT_EQ(b.unmasked(), 3);
}

TEST(HostBatch, UploadScalesTheMaskAndLeavesOutWhatIsAbsent) {
  for (const auto mode : {Stream::Mode::immediate, Stream::Mode::deferred}) {
    Stream stream({}, 1, mode);
    Arena arena({});
    HostBatch b;
    b.ids = {3, 4};
    b.mask = {1, 0};
    b.ordinals = {1ll << 40, 2};
    b.positions = {0, 1};
    b.cu_seqlens = {0, 2};
    const Tokens t = upload(stream, arena, b, 0.125);
    stream.synchronize();
    EXPECT_EQ(t.count(), 2);
    EXPECT_EQ(t.ids.as<std::int32_t>()[1], 4);
    EXPECT_EQ(t.loss_scale.as<float>()[0], 0.125f);
    EXPECT_EQ(t.loss_scale.as<float>()[1], 0.0f);
    EXPECT_FALSE(t.labels);
    EXPECT_EQ(t.ordinals.as<std::int64_t>()[0], 1ll << 40);
  }
}

}  // namespace
}  // namespace mt
