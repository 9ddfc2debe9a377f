// The same run in every layout of tp, dp, sequence parallelism and micro-batch: initial weights bitwise, losses and
// gradient norms within the promise's bounds; and a planted wrong reduction is seen.

#include "ckpt/diff.h"
#include "ckpt/reader.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

struct Layout {
  int tp, dp;
  bool sequence_parallel;
  int micro_batch;
  int zero = 0;
};

std::string layout_name(const testing::TestParamInfo<Layout>& info) {
  const auto& l = info.param;
  return "Tp" + std::to_string(l.tp) + "Dp" + std::to_string(l.dp) + (l.sequence_parallel ? "Sp" : "") + "Mb" +
         std::to_string(l.micro_batch) + (l.zero > 0 ? "Zero" + std::to_string(l.zero) : "");
}

// A pairwise cover; every combination when MT_TEST_FULL is set (the nightly pass).
std::vector<Layout> layouts() {
  if (!std::getenv("MT_TEST_FULL"))
    return {{1, 1, false, 1},    {1, 1, false, 4},   {2, 1, true, 2},     {2, 1, false, 4},   {4, 1, false, 1},
            {4, 1, true, 4},     {1, 2, false, 4},   {1, 4, false, 2},    {2, 2, true, 1},    {2, 2, false, 2},
            {1, 4, false, 1, 1}, {2, 2, true, 4, 2}, {1, 2, false, 2, 3}, {2, 2, true, 2, 3}};
  std::vector<Layout> out;
  for (auto [tp, dp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}, {2, 2}})
    for (bool sp : {false, true})
      for (int mb : {1, 2, 4})
        if (tp > 1 || !sp) out.push_back({tp, dp, sp, mb});
  // ZeRO stages: every one with every dp > 1, and with what else shards.
  for (int zero : {1, 2, 3})
    for (auto [tp, dp, sp, mb] : {std::tuple{1, 2, false, 2}, {1, 4, false, 1}, {2, 2, true, 4}, {4, 2, false, 2}})
      out.push_back({tp, dp, sp, mb, zero});
  return out;
}

TrainingOptions at(TrainingOptions o, const Layout& l) {
  o.parallel.tp = l.tp;
  o.parallel.sequence_parallel = l.sequence_parallel;
  o.batch.micro_batch = l.micro_batch;
  constexpr const char* strategies[] = {"", "optim", "optim_grads", "optim_grads_params"};
  o.sharding_strategy = strategies[l.zero];
  o.use_megatron_fsdp = l.zero == 3;
  return o;
}

const Curve& reference(const std::string& family) {
  static std::map<std::string, Curve> curves;
  if (auto it = curves.find(family); it != curves.end()) return it->second;
  const TempDir dir;
  return curves[family] = test::run_tiny(test::tiny_options(dir, family), 1);
}

class LayoutFree : public testing::TestWithParam<Layout> {};

TEST_P(LayoutFree, LossesAndNormsStayWithinTheBounds) {
  const Layout& l = GetParam();
  // Each layout takes one family, so that both see every layout of one micro-batch size or another.
  const std::string family = (l.micro_batch + l.tp + l.dp) % 2 == 0 ? "llama" : "gpt2";
  const TempDir dir;
  const Curve curve = test::run_tiny(at(test::tiny_options(dir, family), l), l.tp * l.dp);
  const auto d = test::distance(reference(family), curve);
  EXPECT_LE(d.loss, test::kLossBound);
  EXPECT_LE(d.grad_norm, test::kNormBound);
  ASSERT_EQ(curve.loss.size(), 20u);
  EXPECT_LE(curve.loss.back(), 0.9 * curve.loss.front());
}

TEST_P(LayoutFree, InitialWeightsAreBitwiseTheSame) {
  const Layout& l = GetParam();
  const TempDir dir;
  auto o = test::tiny_options(dir, "gpt2");
  o.train_iters = 0;
  o.save = dir / "one";
  test::run_tiny(o, 1);
  o.save = dir / "many";
  test::run_tiny(at(o, l), l.tp * l.dp);
  int compared = 0;
  diff_checkpoints(Reader(dir / "one/iter_0000000"), Reader(dir / "many/iter_0000000"), {},
                   [&](const TensorDifference& d) {
                     EXPECT_EQ(d.kind_of, TensorDifference::Kind::same) << d.text;
                     return ++compared > 0;
                   });
  EXPECT_GT(compared, 3 * 30);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LayoutFree, testing::ValuesIn(layouts()), layout_name);

TEST(LayoutBf16, LossesStayWithinTwoThousandths) {
  const TempDir dir;
  auto o = test::tiny_options(dir);
  o.bf16 = true;
  const Curve one = test::run_tiny(o, 1);
  EXPECT_LE(one.loss.back(), 0.9 * one.loss.front());
  for (const Layout& l : {Layout{2, 1, false, 2}, {2, 2, true, 1}, {4, 1, true, 4}, {1, 4, false, 1}})
    EXPECT_LE(test::distance(one, test::run_tiny(at(o, l), l.tp * l.dp)).loss, 2e-3);
}

// ---- a planted wrong reduction must show ---------------------------------------------------------------------

// Take `axis` off the gradient sums of the first piece that has it.
TrainerHooks without_sum_over(Axis axis) {
  TrainerHooks hooks;
  hooks.on_specs = [axis](std::vector<ParamSpec>& specs) {
    for (auto& spec : specs)
      for (auto& piece : spec.pieces)
        if (std::erase(piece.grad_sum, axis) > 0) return;
    ADD_FAILURE() << "no gradient is summed over " << axis_name(axis);
  };
  return hooks;
}

bool within_bounds(const Curve& curve, const std::string& family) {
  const auto d = test::distance(reference(family), curve);
  return d.loss <= test::kLossBound && d.grad_norm <= test::kNormBound;
}

// The weight of all heads is on every rank, its gradient of this rank's heads alone: also without sequence parallelism.
TEST(LayoutHeadNorm, LossesAndNormsStayWithinTheBounds) {
  const TempDir dir;
  const auto o = test::tiny_options(dir, "qwen3");
  for (const Layout& l : {Layout{2, 1, false, 2}, {4, 1, false, 4}, {2, 2, true, 1}, {1, 2, false, 2, 3}})
    EXPECT_TRUE(within_bounds(test::run_tiny(at(o, l), l.tp * l.dp), "qwen3")) << l.tp << " " << l.dp;
  EXPECT_FALSE(within_bounds(reference("qwen3"), "llama")) << "the norms do something";
}

TEST(PlantedFault, AHeadNormGradientNotSummedOverTpIsSeen) {
  const TempDir dir;
  TrainerHooks hooks;
  hooks.on_specs = [](std::vector<ParamSpec>& specs) {
    for (auto& spec : specs)
      if (spec.name.ends_with("q_layernorm.weight")) spec.pieces[0].grad_sum.clear();
  };
  EXPECT_FALSE(within_bounds(test::run_tiny(at(test::tiny_options(dir, "qwen3"), {2, 1, false, 2}), 2, hooks), "qwen3"));
}

TEST(PlantedFault, ANormGradientNotSummedOverTpIsSeen) {
  const TempDir dir;
  const auto o = at(test::tiny_options(dir), {2, 1, true, 2});
  EXPECT_FALSE(within_bounds(test::run_tiny(o, 2, without_sum_over(Axis::tp)), "llama"));
}

TEST(PlantedFault, AKeyGradientNotSummedOverSharedHeadsIsSeen) {
  const TempDir dir;
  const auto o = at(test::tiny_options(dir), {4, 1, false, 2});
  EXPECT_FALSE(within_bounds(test::run_tiny(o, 4, without_sum_over(Axis::kv)), "llama"));
}

// A world whose data-parallel group leaves out the largest gradient sum.
class LyingWorld : public Communicator {
 public:
  explicit LyingWorld(std::unique_ptr<Communicator> inner)
      : Communicator(inner->name(), inner->world_ranks()), inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const CommOptions& options() const override { return inner_->options(); }
  Handle all_reduce(Stream& s, View x, Reduce op) override {
    if (name_ == "dp-cp" && x.dtype == DType::f32 && calls_++ == 0) return {};
    return inner_->all_reduce(s, x, op);
  }
  Handle all_gather(Stream& s, View in, View out) override { return inner_->all_gather(s, in, out); }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    return inner_->reduce_scatter(s, in, out, op);
  }
  Handle all_to_all(Stream& s, View in, View out) override { return inner_->all_to_all(s, in, out); }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> sent, View out,
                      std::span<const std::int64_t> received) override {
    return inner_->all_to_all_v(s, in, sent, out, received);
  }
  Handle broadcast(Stream& s, View x, int root) override { return inner_->broadcast(s, x, root); }
  Handle send(Stream& s, View x, int peer) override { return inner_->send(s, x, peer); }
  Handle recv(Stream& s, View x, int peer) override { return inner_->recv(s, x, peer); }
  Handle barrier(Stream& s) override { return inner_->barrier(s); }
  void progress() override { inner_->progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    return std::make_unique<LyingWorld>(inner_->make_group(ranks, name));
  }

 private:
  std::unique_ptr<Communicator> inner_;
  int calls_ = 0;
};

TEST(PlantedFault, OneUnitNotSummedOverDpOnceIsSeen) {
  const TempDir dir;
  const auto lie = [](std::unique_ptr<Communicator> w) { return std::make_unique<LyingWorld>(std::move(w)); };
  const auto o = at(test::tiny_options(dir), {1, 2, false, 2});
  EXPECT_FALSE(within_bounds(test::run_tiny(o, 2, {}, lie), "llama"));
}

// ---- replicas ------------------------------------------------------------------------------------------------

TEST(Replicas, ReplicatedGradientsAreBitwiseEqualOverTheirRanks) {
  // One key/value head over four ranks, biases, sequence parallelism on and off.
  for (bool sp : {false, true}) {
    const TempDir dir;
    auto o = at(test::tiny_options(dir, "gpt2"), {4, 1, sp, 2});
    o.model.num_query_groups = 1;
    o.train_iters = 3;
    std::mutex mutex;
    std::map<std::string, std::vector<float>> first;
    int compared = 0;
    TrainerHooks hooks;
    hooks.after_backward = [&](std::int64_t step, ParameterStore& store) {
      const std::lock_guard lock(mutex);
      for (int p = 0; p < store.num_params(); ++p)
        for (const auto& piece : store.spec(p).pieces) {
          if (piece.replicated.empty()) continue;
          const View g = piece_view(store.grad(p), piece);
          const auto values = test::floats_of(store, g);
          const auto [it, fresh] = first.emplace(piece.name + std::to_string(step), values);
          if (fresh) continue;
          ++compared;
          EXPECT_EQ(0, std::memcmp(it->second.data(), values.data(), values.size() * sizeof(float))) << piece.name;
        }
    };
    test::run_tiny(o, 4, hooks);
    EXPECT_GT(compared, 3 * 3 * 30);
  }
}

}  // namespace
}  // namespace mt
