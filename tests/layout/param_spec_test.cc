// The table of parameters: in every layout the pieces of all ranks are the model, each element once but for replicas.

#include "layout/param_spec.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

struct Layout {
  test::Sizes sizes;
  int tp, cp, dp;
  bool sequence_parallel;
};

ParallelSpec spec_of(const Layout& l) {
  ParallelSpec p;
  p.tp = l.tp, p.cp = l.cp, p.dp = l.dp;
  p.sequence_parallel = l.sequence_parallel;
  return p;
}

// Families × tensor-parallel degrees × key/value heads × vocabularies (some ranks then hold padding alone).
std::vector<Layout> layouts() {
  std::vector<Layout> out;
  for (bool llama : {false, true})
    for (int tp : {1, 2, 4, 8})
      for (int kv : {1, 2, 4, 8})
        for (std::int64_t vocab : {5, 61, 64, 130})
          out.push_back({{llama, 8, kv, vocab}, tp, 1, 1 + tp % 3, tp > 1 && kv < 4});
  out.push_back({{true, 8, 2, 61}, 4, 2, 2, true});
  return out;
}

std::string text(const Layout& l) {
  return (l.sizes.llama ? "llama " : "gpt2 ") + parallel_text(spec_of(l)) + " kv " + std::to_string(l.sizes.kv_heads) +
         " vocab " + std::to_string(l.sizes.vocab);
}

using Elements = std::vector<int>;

void count(Elements& seen, const Dims& shape, const Box& box) {
  if (box.empty()) return;
  for_each_run(whole(shape), box, [&](std::int64_t at, std::int64_t, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) ++seen[static_cast<std::size_t>(at + i)];
  });
}

TEST(ParamSpec, PiecesOfAllRanksCoverEachTensorOnceForEveryReplica) {
  for (const Layout& l : layouts()) {
    SCOPED_TRACE(text(l));
    const ModelSpec model = test::small_model(l.sizes);
    const ParallelSpec parallel = spec_of(l);
    std::map<std::string, Elements> held, first, written;
    for (const auto& t : logical_tensors(model))
      for (auto* m : {&held, &first, &written}) (*m)[t.name] = Elements(static_cast<std::size_t>(num_elements(t.shape)));
    std::map<std::string, int> replicas;
    for (const auto& c : place(parallel).coordinates)
      for (const auto& spec : param_specs(model, parallel, c))
        for (const auto& piece : spec.pieces) {
          ASSERT_TRUE(held.count(piece.name)) << piece.name;
          ASSERT_TRUE(inside(piece.box, piece.shape)) << piece.name;
          const Replica r = replica_of(spec, piece, parallel, c);
          ASSERT_TRUE(r.index >= 0 && r.index < r.count) << piece.name;
          replicas[piece.name] = r.count;
          count(held[piece.name], piece.shape, piece.box);
          if (c.dp == 0 && c.cp == 0 && first_replica(piece, c))
            count(first[piece.name], piece.shape, piece.box);
          // What a checkpoint writes: a part for each replica.
          const Box part = written_part(piece, r, DType::f32);
          if (!part.empty()) count(written[piece.name], piece.shape, part);
        }
    for (const auto& t : logical_tensors(model)) {
      const auto n = static_cast<std::size_t>(num_elements(t.shape));
      EXPECT_EQ(held[t.name], Elements(n, replicas[t.name])) << t.name;
      EXPECT_EQ(first[t.name], Elements(n, 1)) << t.name << ": first replicas";
      EXPECT_EQ(written[t.name], Elements(n, 1)) << t.name << ": parts written";
    }
  }
}

TEST(ParamSpec, ABoxIsCutAmongItsReplicasFrom64KibOnAndElseWrittenByOne) {
  Piece piece{"w", {128, 128}, whole({128, 128}), whole({128, 128}), {}, {}, {}};
  const auto elements = [&](DType dtype) {
    std::vector<std::int64_t> n;
    for (int i = 0; i < 4; ++i) {
      const Box part = written_part(piece, {i, 4}, dtype);
      n.push_back(part.empty() ? 0 : part.size());
    }
    return n;
  };
  EXPECT_EQ(elements(DType::f32), (std::vector<std::int64_t>{4096, 4096, 4096, 4096}));  // exactly 64 KiB
  auto small = elements(DType::bf16);
  std::sort(small.begin(), small.end());
  EXPECT_EQ(small, (std::vector<std::int64_t>{0, 0, 0, 16384}));
  EXPECT_EQ(written_part(piece, {0, 1}, DType::bf16), piece.box);
}

TEST(ParamSpec, LocalBoxesAreDisjointAndFillAllButVocabularyPadding) {
  for (const Layout& l : layouts()) {
    SCOPED_TRACE(text(l));
    const ModelSpec model = test::small_model(l.sizes);
    const ParallelSpec parallel = spec_of(l);
    for (const auto& c : place(parallel).coordinates)
      for (const auto& spec : param_specs(model, parallel, c)) {
        Elements seen(static_cast<std::size_t>(spec.elements()));
        for (const auto& piece : spec.pieces) {
          ASSERT_EQ(piece.local.extent, piece.box.extent) << piece.name;
          ASSERT_TRUE(inside(piece.local, spec.shape)) << piece.name;
          count(seen, spec.shape, piece.local);
        }
        for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_LE(seen[i], 1) << spec.name << " element " << i;
        const bool vocab = spec.name.find("word_embeddings") != std::string::npos || spec.name.find("output_layer") == 0;
        const auto filled = std::count(seen.begin(), seen.end(), 1);
        if (!vocab) {
          EXPECT_EQ(filled, spec.elements()) << spec.name;
        } else {
          EXPECT_EQ(spec.shape[0] * parallel.tp, padded_vocab(model, parallel.tp)) << spec.name;
        }
      }
  }
}

TEST(ParamSpec, ReplicasHoldTheSameBoxAndPartialGradientsAreOnReplicatedAxes) {
  for (const Layout& l : layouts()) {
    SCOPED_TRACE(text(l));
    const ModelSpec model = test::small_model(l.sizes);
    const ParallelSpec parallel = spec_of(l);
    const Placement placement = place(parallel);
    std::vector<std::vector<ParamSpec>> tables;
    for (const auto& c : placement.coordinates) tables.push_back(param_specs(model, parallel, c));
    for (std::size_t rank = 0; rank < tables.size(); ++rank)
      for (std::size_t i = 0; i < tables[rank].size(); ++i)
        for (std::size_t k = 0; k < tables[rank][i].pieces.size(); ++k) {
          const Piece& piece = tables[rank][i].pieces[k];
          for (Axis a : piece.grad_sum)
            EXPECT_EQ(std::count(piece.replicated.begin(), piece.replicated.end(), a), 1) << piece.name;
          ASSERT_LE(piece.replicated.size(), 1u);
          std::set<int> same, want;  // tp ranks with this box, and what `replicated` says
          for (int other : group_of(placement, {Axis::tp}, static_cast<int>(rank))) {
            if (tables[static_cast<std::size_t>(other)][i].pieces[k].box == piece.box && !piece.box.empty())
              same.insert(other);
          }
          if (piece.replicated.empty()) want = {static_cast<int>(rank)};
          for (Axis a : piece.replicated) {
            const auto g = a == Axis::tp ? group_of(placement, {Axis::tp}, static_cast<int>(rank))
                                         : kv_group(placement, l.sizes.kv_heads, static_cast<int>(rank));
            want.insert(g.begin(), g.end());
          }
          if (!piece.box.empty()) {
            EXPECT_EQ(same, want) << piece.name;
          }
        }
  }
}

TEST(ParamSpec, GradientsArePartialWhereRanksSeeOtherTokensOrOtherQueries) {
  const ModelSpec model = test::small_model({false, 8, 2, 61});
  for (bool sp : {false, true}) {
    ParallelSpec parallel;
    parallel.tp = 4;
    parallel.sequence_parallel = sp;
    for (const auto& spec : param_specs(model, parallel, {}))
      for (const auto& piece : spec.pieces) {
        std::vector<Axis> want;
        const auto has = [&](const char* part) { return piece.name.find(part) != std::string::npos; };
        if (has("linear_k") || has("linear_v"))
          want = {Axis::kv};
        else if (sp && (has("norm") || has("proj.bias") || has("fc2.bias") || has("position")))
          want = {Axis::tp};
        EXPECT_EQ(piece.grad_sum, want) << piece.name << " sp " << sp;
      }
  }
}

TEST(ParamSpec, NamesShapesStartAndDecayAreMegatrons) {
  ParallelSpec tp2;
  tp2.tp = 2;
  Coordinate second;
  second.tp = 1;
  std::map<std::string, ParamSpec> by_name;
  const ModelSpec model = test::small_model({true, 8, 2, 61});  // hidden 32, head 4, ffn 48, 2 layers
  for (auto& s : param_specs(model, tp2, second)) by_name[s.name] = s;
  EXPECT_EQ(by_name.size(), 1u + 2 * 6 + 2);
  const auto& qkv = by_name.at("decoder.layers.1.self_attention.linear_qkv.weight");
  EXPECT_EQ(qkv.shape, (Dims{16 + 2 * 4, 32}));
  ASSERT_EQ(qkv.pieces.size(), 3u);
  EXPECT_EQ(qkv.pieces[0].name, "decoder.layers.1.self_attention.linear_q.weight");
  EXPECT_EQ(qkv.pieces[0].box, (Box{{16, 0}, {16, 32}}));
  EXPECT_EQ(qkv.pieces[1].box, (Box{{4, 0}, {4, 32}}));
  EXPECT_EQ(qkv.pieces[2].local, (Box{{20, 0}, {4, 32}}));
  EXPECT_EQ(qkv.unit, 3) << "embedding, attention 0, ffn 0, attention 1";
  const auto& fc1 = by_name.at("decoder.layers.0.mlp.linear_fc1.weight");
  EXPECT_EQ(fc1.pieces[1].name, "decoder.layers.0.mlp.linear_fc1_up.weight");
  EXPECT_EQ(fc1.pieces[1].box, (Box{{24, 0}, {24, 32}}));
  EXPECT_EQ(fc1.pieces[1].local, (Box{{24, 0}, {24, 32}}));
  const auto& fc2 = by_name.at("decoder.layers.0.mlp.linear_fc2.weight");
  EXPECT_EQ(fc2.shape, (Dims{32, 24}));
  EXPECT_EQ(fc2.pieces[0].box, (Box{{0, 24}, {32, 24}}));
  EXPECT_DOUBLE_EQ(fc2.pieces[0].init.std, 0.02 / 2) << "over sqrt(2 layers · 2)";
  const auto& norm = by_name.at("decoder.layers.0.pre_mlp_layernorm.weight");
  EXPECT_FALSE(norm.decay);
  EXPECT_EQ(norm.pieces[0].init.kind, Init::Kind::one);
  EXPECT_EQ(by_name.at("output_layer.weight").grad_slots, 1);
  EXPECT_EQ(by_name.at("decoder.final_layernorm.weight").unit, num_units(model) - 1);
  EXPECT_TRUE(by_name.at("embedding.word_embeddings.weight").decay);
  for (const auto& [name, s] : by_name) {
    if (name.find("fc2") != std::string::npos || name.find("proj") != std::string::npos) continue;
    for (const auto& p : s.pieces) {
      if (p.init.kind == Init::Kind::normal) {
        EXPECT_EQ(p.init.std, 0.02) << name;
      }
    }
  }
}

TEST(ParamSpec, ATiedEmbeddingIsOneTensorWithTwoGradientSlots) {
  const ModelSpec model = test::small_model({false, 8, 8, 61});
  int tables = 0;
  for (const auto& s : param_specs(model, {}, {})) {
    EXPECT_NE(s.name, "output_layer.weight");
    tables += s.name == "embedding.word_embeddings.weight";
    if (s.name == "embedding.word_embeddings.weight") {
      EXPECT_EQ(s.grad_slots, 2);
    }
  }
  EXPECT_EQ(tables, 1);
  ParallelSpec pp2;
  pp2.pp = 2;
  Coordinate last;
  last.pp = 1;
  const auto specs = param_specs(model, pp2, last);
  EXPECT_EQ(specs.back().name, "output_layer.weight");
  EXPECT_EQ(specs.back().pieces[0].name, "embedding.word_embeddings.weight") << "the last stage holds a copy";
  EXPECT_EQ(specs.back().grad_slots, 2);
}

TEST(ParamSpec, StagesShareTheRowsInOrder) {
  ModelOptions o = test::small_options({});
  o.num_layers = 8;
  const ModelSpec model = build_model(o, 61);
  for (const auto& [pp, vpp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {8, 1}, {2, 2}, {2, 4}, {4, 2}}) {
    ParallelSpec p;
    p.pp = pp, p.vpp = vpp;
    int next = 0;
    for (int stage = 0; stage < pp * vpp; ++stage) {
      const auto c = stage_content(model, p, stage % pp, stage / pp);
      EXPECT_EQ(c.embedding, stage == 0);
      EXPECT_EQ(c.head, stage == pp * vpp - 1);
      EXPECT_EQ(c.first_row, next);
      EXPECT_EQ(c.last_row - c.first_row, 16 / (pp * vpp));
      next = c.last_row;
    }
    EXPECT_EQ(next, 16);
  }
}

TEST(ParamSpec, ParameterCountsArePublishedOnes) {
  ModelOptions gpt2;  // 124M: 124,439,808 parameters with 1024 positions and 50257 tokens
  gpt2.num_layers = gpt2.num_attention_heads = 12;
  gpt2.hidden_size = 768;
  gpt2.max_position_embeddings = 1024;
  EXPECT_EQ(num_parameters(build_model(gpt2, 50257)), 124'439'808);
  ModelOptions llama;  // LLaMA-2 7B: 6,738,415,616
  llama.num_layers = llama.num_attention_heads = 32;
  llama.hidden_size = 4096;
  llama.max_position_embeddings = 4096;
  llama.ffn_hidden_size = 11008;
  llama.swiglu = llama.untie_embeddings_and_output_weights = true;
  llama.add_bias_linear = false;
  llama.normalization = "RMSNorm";
  llama.position_embedding_type = "rope";
  EXPECT_EQ(num_parameters(build_model(llama, 32000)), 6'738'415'616);
}

}  // namespace
}  // namespace mt
