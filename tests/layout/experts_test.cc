// Experts in the tables: every element on exactly one expert rank of a replica, lists of layers, and the manifest's words.

#include <array>
#include <map>

#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/models.h"
#include "layout/param_spec.h"
#include "layout/shards.h"
#include "layout/validate.h"

namespace mt {
namespace {

ModelOptions with_experts(const std::string& layers) {
  ModelOptions o = test::small_options({});
  o.num_experts = 4;
  o.moe_layer_freq = layers;
  o.moe_ffn_hidden_size = 24;
  o.moe_shared_expert_intermediate_size = 16;
  return o;
}

TEST(Experts, EveryElementIsOnOneRankOfAReplica) {
  const ModelSpec model = build_model(with_experts("1"), 61);
  ParallelSpec p;
  p.tp = 2, p.dp = 4, p.ep = 2, p.etp = 2;  // edp 2
  p.sequence_parallel = true;
  std::map<std::string, std::int64_t> held, whole;
  const Placement placement = place(p);
  for (const auto& at : placement.coordinates)
    for (const auto& spec : param_specs(model, p, at))
      for (const auto& piece : spec.pieces)
        if (spec.expert) held[piece.name] += piece.box.size(), whole[piece.name] = num_elements(piece.shape);
  EXPECT_EQ(whole.size(), 6u);  // gate, up and fc2 of two layers
  for (const auto& [name, n] : whole) EXPECT_EQ(held[name], n * p.edp()) << name;
}

TEST(Experts, LieInBucketsOfTheirOwnSharedOverTheirOwnRanks) {
  const ModelSpec model = build_model(with_experts("1"), 61);
  ParallelSpec p;
  p.tp = 2, p.dp = 4, p.ep = 2, p.etp = 2;  // edp 2
  p.sequence_parallel = true;
  p.zero_stage = 1;
  const Placement placement = place(p);
  std::map<std::string, std::map<std::array<int, 2>, std::int64_t>> held;  // by name and expert (or dense) rank
  std::map<std::string, std::int64_t> there;
  for (const auto& at : placement.coordinates) {
    const auto specs = param_specs(model, p, at);
    const ShardPlan plan = plan_shards(specs, shard_spec(p, at));
    for (const Bucket& b : plan.buckets) {
      EXPECT_EQ(b.size() % (64 * b.parts), 0);
      for (int i = b.first_param; i < b.last_param; ++i)
        EXPECT_EQ(b.parts, specs[static_cast<std::size_t>(i)].expert ? 2 : 4) << specs[static_cast<std::size_t>(i)].name;
    }
    for (const auto& o : plan.shards) {
      const auto& spec = specs[static_cast<std::size_t>(o.param)];
      const auto rank = spec.expert ? std::array{at.etp, at.ep} : std::array{at.tp, 0};
      held[spec.name][rank] += o.size();
      there[spec.name] = spec.elements();
    }
  }
  for (const auto& [name, ranks] : held)
    for (const auto& [rank, n] : ranks) EXPECT_EQ(n, there[name]) << name << ": every element once";
}

TEST(Experts, ListsSayWhichLayersHaveThem) {
  const auto kinds = [](const std::string& list) {
    std::string s;
    const ModelSpec model = build_model(with_experts(list), 61);
    for (const auto& row : model.decoder().rows)
      if (row.kind != RowKind::attention) s += row.kind == RowKind::moe ? '1' : '0';
    return s;
  };
  EXPECT_EQ(kinds("1"), "11");
  EXPECT_EQ(kinds("2"), "10");
  EXPECT_EQ(kinds("([0]+[1]*1)"), "01");
  EXPECT_EQ(kinds("[0, 1]"), "01");
  for (const char* bad : {"0", "x", "[0]*3", "[0]+1", "[2]*2", "[0,1"}) EXPECT_THROW(kinds(bad), Error) << bad;
}

TEST(Experts, AreKeptInTheManifestAndTellModelsApart) {
  const ModelSpec model = build_model(with_experts("2"), 61);
  EXPECT_EQ(to_json(model_from_json(to_json(model), "here")), to_json(model));
  auto other = with_experts("2");
  other.moe_router_topk = 1;
  EXPECT_NE(model_difference(model, build_model(other, 61)), "");
  // Parameters by hand: 4 experts of 3·24·32, a router, a shared network, in the first layer alone; the second is dense.
  EXPECT_EQ(num_parameters(model) - num_parameters(build_model(test::small_options({}), 61)),
            4 * 3 * 24 * 32 + 4 * 32 + 3 * 16 * 32 - 3 * 48 * 32);
}

// A dense layer between layers of experts has a width of its own, wherever it stands.
TEST(Experts, TheWidthOfDenseLayersBetweenThemIsChecked) {
  for (const char* layers : {"2", "([0]*1+[1]*1)"}) {
    ModelOptions o = with_experts(layers);
    o.ffn_hidden_size = 50;
    ParallelSpec p;
    p.tp = 4, p.etp = 4, p.sequence_parallel = true;
    Limits limits;
    limits.max_experts = 4, limits.max_etp = 4;
    std::string all;
    for (const auto& problem : validate(build_model(o, 61), p, {}, limits, 1)) all += problem.what + "\n";
    EXPECT_NE(all.find("ffn-hidden-size 50 is not divisible by tensor-model-parallel-size 4"), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace mt
