// Logits, losses and all gradients of tiny GPT-2, LLaMA and Qwen3 models against PyTorch's in float64, at every tensor-parallel
// degree the models have, with and without sequence parallelism; and generation over a cache against whole passes.

#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include "comm/device_ranks.h"
#include "engine/executor.h"
#include "nn/golden_model.h"

namespace mt {
namespace {

using test::GoldenTensor;
using Golden = std::map<std::string, GoldenTensor>;

struct Case {
  std::string model;
  int tp;
  bool sequence_parallel;
  Stream::Mode mode;
};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.model + "Tp" + std::to_string(info.param.tp) + (info.param.sequence_parallel ? "Sp" : "") +
         (info.param.mode == Stream::Mode::deferred ? "Deferred" : "");
}

// The piece's box of a golden tensor, row-major.
std::vector<float> box_of(const GoldenTensor& t, const Box& box) {
  std::vector<float> out(static_cast<std::size_t>(box.size()));
  for_each_run(whole(t.shape), box, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
    std::copy_n(t.values.begin() + global, n, out.begin() + local);
  });
  return out;
}

void set_weights(Stream& stream, const ParameterStore& store, const Golden& golden) {
  for (int p = 0; p < store.num_params(); ++p)
    for (const auto& piece : store.spec(p).pieces) {
      const auto values = box_of(golden.at("weight." + piece.name), piece.box);
      test::set_elements<float>(stream, piece_view(store.weight(p), piece), values);
    }
}

HostBatch batch_of(const Golden& golden) {
  const auto& ids = golden.at("ids");
  const auto b = ids.shape[0], s = ids.shape[1];
  HostBatch h;
  h.ids = ids.ints;
  h.labels = golden.at("labels").ints;
  h.mask = golden.at("mask").values;
  h.cu_seqlens.push_back(0);
  for (std::int64_t i = 0; i < b; ++i) {
    for (std::int64_t t = 0; t < s; ++t) {
      h.ordinals.push_back(i);
      h.positions.push_back(static_cast<std::int32_t>(t));
    }
    h.cu_seqlens.push_back(static_cast<std::int32_t>((i + 1) * s));
  }
  return h;
}

// Largest difference relative to the largest value: what f32 rounding through a few hundred operations leaves. The
// floor is for gradients that are zero in exact arithmetic (a bias of all keys shifts every score of a row alike).
void expect_close(const std::vector<float>& got, const std::vector<float>& want, double bound, const std::string& what) {
  double scale = 1e-2, worst = 0;
  for (float w : want) scale = std::max(scale, std::fabs(static_cast<double>(w)));
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
  EXPECT_LE(worst / scale, bound) << what;
}

struct RankModel {
  Device device;
  Stream stream;
  Groups groups;
  ParameterStore store;
  RankModel(Communicator& world, const ModelSpec& spec, const ParallelSpec& parallel, Stream::Mode mode)
      : device(test::rank_device(world)),
        stream(device, 1, mode),
        groups(make_groups(world, place(parallel), kv_heads_of(spec))),
        store(param_specs(spec, parallel, groups.coordinate), DType::f32, device) {}
};

class Oracle : public testing::TestWithParam<Case> {
 protected:
  void on_ranks(const std::function<void(RankModel&, const ModelSpec&, const Golden&)>& body) {
    const Case& c = GetParam();
    const ModelSpec spec = test::golden_spec(c.model);
    const Golden golden = test::read_golden(c.model);
    ParallelSpec parallel;
    parallel.tp = c.tp;
    parallel.sequence_parallel = c.sequence_parallel;
    test::on_device_ranks(c.tp, [&](Communicator& world) {
      RankModel rank(world, spec, parallel, c.mode);
      set_weights(rank.stream, rank.store, golden);
      body(rank, spec, golden);
    });
  }
};

// Without sequence parallelism: single tokens cannot be cut.
class CachedOracle : public Oracle {};

TEST_P(Oracle, LossesAndGradientsEqualPyTorchs) {
  on_ranks([](RankModel& r, const ModelSpec& spec, const Golden& golden) {
    const HostBatch batch = batch_of(golden);
    const BatchSpec shape{12, 2, 2};
    const Model model(spec, shape, r.groups, r.store, 0, r.device);
    Executor executor(ExecutorParts{r.stream, r.groups, r.store, 1}, model, shape, r.device);
    r.store.zero_grads(r.stream);
    const auto loss = executor.run_lane(one_f_one_b(1, 1).lanes[0], {batch}, 1 / batch.unmasked(), {});
    expect_close(loss[0], golden.at("token_loss").values, 2e-6, "token loss");
    for (int p = 0; p < r.store.num_params(); ++p)
      for (const auto& piece : r.store.spec(p).pieces)
        expect_close(test::elements(r.stream, piece_view(r.store.grad(p), piece)), box_of(golden.at("grad." + piece.name), piece.box),
                     4e-6, "gradient of " + piece.name);
  });
}

TEST_P(Oracle, PaddingRowsGetExactlyZeroGradients) {
  on_ranks([](RankModel& r, const ModelSpec& spec, const Golden& golden) {
    const HostBatch batch = batch_of(golden);
    const BatchSpec shape{12, 2, 2};
    const Model model(spec, shape, r.groups, r.store, 0, r.device);
    Executor executor(ExecutorParts{r.stream, r.groups, r.store, 1}, model, shape, r.device);
    for (const char* name : {"embedding.word_embeddings.weight", "output_layer.weight"}) {
      const int p = r.store.find(name);
      if (p < 0) continue;
      const View padding = r.store.weight(p).rows(r.store.spec(p).pieces[0].box.extent[0], r.store.spec(p).shape[0]);
      const std::vector<float> hundreds(static_cast<std::size_t>(padding.size()), 100.0f);
      test::set_elements<float>(r.stream, padding, hundreds);
    }
    r.store.zero_grads(r.stream);
    const auto loss = executor.run_lane(one_f_one_b(1, 1).lanes[0], {batch}, 1 / batch.unmasked(), {});
    expect_close(loss[0], golden.at("token_loss").values, 2e-6, "token loss with padding rows of 100");
    for (const char* name : {"embedding.word_embeddings.weight", "output_layer.weight"}) {
      const int p = r.store.find(name);
      if (p < 0) continue;
      const View padding = r.store.grad(p).rows(r.store.spec(p).pieces[0].box.extent[0], r.store.spec(p).shape[0]);
      for (const float x : test::elements(r.stream, padding)) EXPECT_EQ(x, 0.0f) << name;
    }
  });
}

TEST_P(CachedOracle, GenerationOverACacheGivesTheLogitsOfAWholePass) {
  on_ranks([](RankModel& r, const ModelSpec& spec, const Golden& golden) {
    const HostBatch all = batch_of(golden);
    const BatchSpec one{1, 1, 1, 12};
    const Model model(spec, one, r.groups, r.store, 0, r.device);
    Executor executor(ExecutorParts{r.stream, r.groups, r.store, 1}, model, one, r.device);
    Arena arena(r.device);
    auto caches = executor.make_caches(arena, 12);
    for (std::size_t t = 0; t < 12; ++t) {
      HostBatch b;
      b.ids = {all.ids[t]};
      b.ordinals = {0};
      b.positions = {static_cast<std::int32_t>(t)};
      b.cu_seqlens = {0, 1};
      const auto logits = executor.next_logits(b, caches);
      ASSERT_EQ(logits.size(), 37u);
      const auto& want = golden.at("logits").values;
      expect_close(logits, {want.begin() + static_cast<std::ptrdiff_t>(t * 37),
                                   want.begin() + static_cast<std::ptrdiff_t>((t + 1) * 37)},
                   4e-6, "logits of token " + std::to_string(t));
    }
  });
}

TEST_P(Oracle, ScoringGivesTheLossesOfTraining) {
  on_ranks([](RankModel& r, const ModelSpec& spec, const Golden& golden) {
    const BatchSpec shape{12, 2, 2};
    const Model model(spec, shape, r.groups, r.store, 0, r.device);
    Executor executor(ExecutorParts{r.stream, r.groups, r.store, 1}, model, shape, r.device);
    const auto loss = executor.score(batch_of(golden));
    expect_close(loss, golden.at("token_loss").values, 2e-6, "token loss");
  });
}

INSTANTIATE_TEST_SUITE_P(
    Models, Oracle,
    testing::Values(Case{"gpt2", 1, false, Stream::Mode::immediate}, Case{"gpt2", 2, false, Stream::Mode::immediate},
                    Case{"gpt2", 2, true, Stream::Mode::immediate}, Case{"gpt2", 4, true, Stream::Mode::immediate},
                    Case{"gpt2", 2, true, Stream::Mode::deferred}, Case{"llama", 1, false, Stream::Mode::immediate},
                    Case{"llama", 2, true, Stream::Mode::immediate}, Case{"llama", 4, false, Stream::Mode::immediate},
                    Case{"llama", 4, true, Stream::Mode::immediate}, Case{"llama", 1, false, Stream::Mode::deferred},
                    Case{"llama", 4, true, Stream::Mode::deferred}, Case{"qwen3", 1, false, Stream::Mode::immediate},
                    Case{"qwen3", 2, false, Stream::Mode::immediate}, Case{"qwen3", 2, true, Stream::Mode::immediate},
                    Case{"qwen3", 4, true, Stream::Mode::deferred}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Models, CachedOracle,
    testing::Values(Case{"gpt2", 1, false, Stream::Mode::immediate}, Case{"gpt2", 4, false, Stream::Mode::immediate},
                    Case{"llama", 1, false, Stream::Mode::deferred}, Case{"llama", 2, false, Stream::Mode::immediate},
                    Case{"llama", 4, false, Stream::Mode::immediate}, Case{"qwen3", 2, false, Stream::Mode::immediate}),
    case_name);

}  // namespace
}  // namespace mt
