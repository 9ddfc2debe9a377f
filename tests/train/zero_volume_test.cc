// What ZeRO costs, counted: elements sent per rank and step over dp, at every stage and number of micro-batches.
// Wanted: Rajbhandari et al., arXiv:1910.02054, section 7, times the micro-batches a stage repeats its messages for.

#include <mutex>

#include "train/tiny_run.h"

namespace mt {
namespace {

struct Case {
  int stage, dp, micro_batches;
  bool bf16 = false;  // weights and gradients
  int instances = 1;  // of the optimizer: the dp ranks fall in so many parts
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "Zero" << c.stage << "Dp" << c.dp << "MicroBatches" << c.micro_batches << (c.bf16 ? "Bf16" : "");
  if (c.instances > 1) *out << "Instances" << c.instances;
}

TrainingOptions options_of(const test::TempDir& dir, const Case& c, std::int64_t steps) {
  auto o = test::tiny_options(dir);
  o.parallel.dp = c.dp;
  o.parallel.optimizer_instances = c.instances;
  o.batch = {16, 2, 2 * c.dp * c.micro_batches};
  const char* strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  o.sharding_strategy = strategies[c.stage];
  o.use_megatron_fsdp = c.stage == 3;
  o.train_iters = steps;
  o.bf16 = o.grad_reduce_in_bf16 = c.bf16;
  return o;
}

// Bytes rank 0 sent over dp in a run, and what it holds.
struct Counted {
  std::int64_t bytes = 0, inside = 0, across = 0, padded = 0, params = 0;
};

Counted count(const Case& c, std::int64_t steps) {
  const test::TempDir dir;
  std::vector<comm::TrafficLog> logs(static_cast<std::size_t>(c.dp));
  Counted counted;
  std::mutex mutex;
  TrainerHooks hooks;
  hooks.after_backward = [&](std::int64_t, ParameterStore& store) {
    const std::lock_guard lock(mutex);
    counted.padded = store.plan().total;
    counted.params = 0;
    for (const auto& s : store.specs()) counted.params += s.elements();
  };
  test::run_tiny(options_of(dir, c, steps), c.dp, hooks, [&](std::unique_ptr<Communicator> world) {
    auto& log = logs[static_cast<std::size_t>(world->rank())];
    return comm::recording(std::move(world), log);
  });
  for (const auto& row : logs[0].rows()) {
    if (row.group == "dp-cp") counted.bytes += row.bytes_sent;
    if (row.group == "intra-partial-dp-cp") counted.inside += row.bytes_sent;
    if (row.group == "inter-partial-dp-cp") counted.across += row.bytes_sent;
  }
  return counted;
}

// Hybrid sharding: what travelled over all of dp stays inside an instance, and a gradient's shard goes across once a step.
class HybridVolume : public testing::TestWithParam<Case> {};

TEST_P(HybridVolume, InsideIsThatOfAnInstanceAndAcrossIsOneSumOfAShard) {
  const Case c = GetParam();
  const Counted two = count(c, 2), three = count(c, 3);
  const std::int64_t m = c.micro_batches, multiple[] = {2, 2, m + 1, 3 * m}, n = c.dp / c.instances;
  EXPECT_EQ(three.inside - two.inside, multiple[c.stage] * three.padded * (n - 1) / n * 4);
  const std::int64_t across = three.across - two.across, wanted = 2 * three.padded / n * (c.instances - 1) / c.instances * 4;
  EXPECT_NEAR(static_cast<double>(across), static_cast<double>(wanted), 0.001 * static_cast<double>(wanted));
  EXPECT_LE(three.bytes - two.bytes, 8 * (c.dp - 1) * 8) << "the count of tokens and the loss";
}

INSTANTIATE_TEST_SUITE_P(Stages, HybridVolume,
                         testing::Values(Case{1, 4, 2, false, 2}, Case{2, 4, 4, false, 2}, Case{3, 4, 2, false, 2},
                                         Case{1, 6, 1, false, 3}, Case{3, 2, 1, false, 2}),
                         testing::PrintToStringParamName());

class ZeroVolume : public testing::TestWithParam<Case> {};

TEST_P(ZeroVolume, OfAStepIsThePublishedMultipleOfTheParameters) {
  const Case c = GetParam();
  const Counted two = count(c, 2), three = count(c, 3);
  const std::int64_t m = c.micro_batches, multiple[] = {2, 2, m + 1, 3 * m};
  const std::int64_t wanted = multiple[c.stage] * three.padded * (c.dp - 1) / c.dp * (c.bf16 ? 2 : 4);
  const std::int64_t sent = three.bytes - two.bytes;
  RecordProperty("parameters", std::to_string(three.params));
  RecordProperty("padding", std::to_string(three.padded - three.params));
  // Beside the parameters a step sums a few numbers: the count of tokens, the loss.
  EXPECT_GE(sent, wanted);
  EXPECT_LE(sent, wanted + 8 * (c.dp - 1) * 8);
  EXPECT_LT(three.padded - three.params, three.params / 10);
}

INSTANTIATE_TEST_SUITE_P(Stages, ZeroVolume,
                         testing::Values(Case{0, 2, 1}, Case{0, 4, 4}, Case{1, 2, 4}, Case{1, 4, 1}, Case{2, 2, 1},
                                         Case{2, 2, 4}, Case{2, 4, 4}, Case{3, 2, 1}, Case{3, 2, 4}, Case{3, 4, 4},
                                         Case{0, 2, 1, true}, Case{1, 2, 4, true}, Case{2, 2, 4, true}, Case{3, 2, 4, true}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace mt
