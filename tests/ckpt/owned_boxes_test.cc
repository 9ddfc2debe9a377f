// Over all ranks of any layout every element of every tensor is written once, from where the rank holds it.

#include "ckpt/owned_boxes.h"

#include <map>

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

using Elements = std::vector<int>;

ModelSpec with_experts() {
  auto o = test::small_options({});
  o.num_experts = 4;
  o.moe_layer_freq = "2";
  o.moe_ffn_hidden_size = 24;
  o.moe_shared_expert_intermediate_size = 16;
  return build_model(o, 61);
}

struct Layout {
  int tp, pp, dp, ep, etp, zero, instances;
};

void expect_each_element_once(const ModelSpec& model, const ParallelSpec& parallel) {
  std::map<std::string, Elements> written;
  for (const auto& t : logical_tensors(model)) written[t.name].resize(static_cast<std::size_t>(num_elements(t.shape)));
  const auto kinds = [](const ParamSpec&, const Piece&) { return std::vector<StateKind>{{"master", DType::f32}}; };
  for (const auto& at : place(parallel).coordinates) {
    const auto specs = param_specs(model, parallel, at);
    const ShardPlan plan = plan_shards(specs, shard_spec(parallel, at));
    for (const auto& b : owned_boxes(specs, plan, parallel, at, kinds)) {
      ASSERT_TRUE(inside(b.what.box, b.what.shape)) << b.what.name;
      const OwnedRange& shard = plan.shards[b.shard];
      ASSERT_GE(b.at, 0);
      ASSERT_LT(b.at, shard.size()) << b.what.name;
      for_each_run(whole(b.what.shape), b.what.box, [&](std::int64_t from, std::int64_t, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) ++written[b.what.name][static_cast<std::size_t>(from + i)];
      });
      // Its first element is where the parameter has it.
      const auto& spec = specs[static_cast<std::size_t>(shard.param)];
      std::int64_t first = -1, place = -1;
      for_each_run(whole(b.what.shape), b.what.box, [&](std::int64_t from, std::int64_t, std::int64_t) {
        if (first < 0) first = from;
      });
      for (const auto& piece : spec.pieces) {
        if (piece.name != b.what.name || piece.box.empty()) continue;
        std::vector<std::int64_t> logical;
        for_each_run(whole(piece.shape), piece.box, [&](std::int64_t from, std::int64_t, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i) logical.push_back(from + i);
        });
        for_each_run(whole(spec.shape), piece.local, [&](std::int64_t local, std::int64_t inner, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i)
            if (logical[static_cast<std::size_t>(inner + i)] == first) place = local + i;
        });
      }
      EXPECT_EQ(place, shard.begin + b.at) << b.what.name;
    }
  }
  for (const auto& [name, elements] : written) EXPECT_EQ(elements, Elements(elements.size(), 1)) << name;
}

TEST(OwnedBoxes, HoldEveryElementOnceInEveryLayout) {
  for (const Layout& l :
       {Layout{1, 1, 1, 1, 1, 0, 1}, {2, 1, 1, 1, 2, 0, 1}, {1, 2, 2, 1, 1, 0, 1}, {4, 1, 3, 1, 4, 0, 1}, {1, 1, 4, 1, 1, 1, 1},
        {2, 2, 4, 1, 2, 2, 2}, {8, 1, 2, 1, 8, 3, 1}, {1, 1, 4, 2, 1, 0, 1}, {2, 1, 4, 4, 1, 1, 1}, {2, 2, 4, 2, 2, 1, 2},
        {2, 1, 4, 2, 1, 3, 2}}) {
    SCOPED_TRACE(fmt::format("tp {} pp {} dp {} ep {} etp {} ZeRO {} in {}", l.tp, l.pp, l.dp, l.ep, l.etp, l.zero, l.instances));
    ParallelSpec p;
    p.tp = l.tp, p.pp = l.pp, p.dp = l.dp, p.ep = l.ep, p.etp = l.etp;
    p.zero_stage = l.zero, p.optimizer_instances = l.instances;
    p.sequence_parallel = l.tp > 1;
    if (l.tp <= 2) expect_each_element_once(with_experts(), p);
    if (l.ep > 1 || l.etp != l.tp) continue;
    expect_each_element_once(test::small_model({true, 8, 2, 61}), p);
    expect_each_element_once(test::small_model({false, 8, 8, 61}), p);
  }
}

}  // namespace
}  // namespace mt
