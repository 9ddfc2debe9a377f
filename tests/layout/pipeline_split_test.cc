// Splits against counts written by hand, Megatron's example, and that what is offered is legal.

#include "layout/pipeline_split.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

using Counts = std::vector<int>;

struct Asked {
  int pp = 1, vpp = 1, layers = 1;
  PipelineSplit split = {};
};

struct Answer {
  Counts stages;  // empty: even
  int vpp = 1;
  std::string problems;
};

Answer answer(const Asked& a) {
  ParallelSpec p;
  p.pp = a.pp, p.vpp = a.vpp;
  Answer out;
  for (const auto& problem : split_stages(a.split, a.layers, p)) out.problems += problem.what + "; try " + problem.nearest;
  out.stages = p.stage_layers;
  out.vpp = p.vpp;
  return out;
}

PipelineSplit layout(const std::string& text) {
  PipelineSplit s;
  s.layout = text;
  return s;
}
PipelineSplit ends(std::optional<int> first, std::optional<int> last) {
  PipelineSplit s;
  s.first_layers = first, s.last_layers = last;
  return s;
}
PipelineSplit counted(bool embedding, bool loss) {
  PipelineSplit s;
  s.count_embedding = embedding, s.count_loss = loss;
  return s;
}
PipelineSplit chunk_layers(int n) {
  PipelineSplit s;
  s.layers_per_virtual_stage = n;
  return s;
}

TEST(PipelineLayout, ReadsLettersRepeatsAndParentheses) {
  const auto counts = [](const std::string& text) {
    Counts c;
    for (const auto& s : parse_pipeline_layout(text)) c.push_back(s.layers);
    return c;
  };
  EXPECT_EQ(counts("Ett|ttL"), (Counts{2, 2}));
  EXPECT_EQ(counts("Et*3|,(tt|)*2 tL"), (Counts{3, 2, 2, 1}));
  EXPECT_EQ(counts("E|((t|)*2|)*2tL"), (Counts{0, 1, 1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(counts("E|*3L"), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(counts("E(t)*0tL"), (Counts{1}));
  // Megatron's own: 61 layers and one multi-token layer over 32 stages.
  const auto big = parse_pipeline_layout("Et*3|(tt|)*29,m|L");
  ASSERT_EQ(big.size(), 32u);
  EXPECT_EQ(big[0].layers, 3);
  EXPECT_EQ(big[29].layers, 2);
  EXPECT_EQ(big[30].multi_token, 1);
  EXPECT_TRUE(big[0].embedding && big[31].loss);
}

TEST(PipelineLayout, SaysWhatIsWrong) {
  for (const auto& [text, words] :
       {std::pair{"Etx|tL", "character 3: 'x' is no letter"}, {"Et*|tL", "a number must follow '*'"},
        {"E(tt|tL", "'(' is not closed"}, {"Ett)|L", "')' closes nothing"}, {"*2t", "'*' repeats nothing"},
        {"E(((t*99)*99)*99)*99L", "more than 100000 letters"}, {"Et*99999999999L", "more than 100000"},
        {"Et|EtL", "E must stand at the beginning"}, {"tEt|L", "E must stand"}, {"EtL|tL", "L must stand at the end"}}) {
    try {
      parse_pipeline_layout(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config);
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  }
}

TEST(PipelineLayout, TextAndListAreOneAnother) {
  for (const Counts& c : {Counts{4}, {0}, {9, 3}, {3, 2, 2, 1}, {2, 2, 2, 2}, {0, 5, 0}, {1, 1, 1, 7, 7, 7, 0, 0, 0, 2}}) {
    Counts back;
    const std::string text = pipeline_layout_text(c);
    for (const auto& s : parse_pipeline_layout(text)) back.push_back(s.layers);
    EXPECT_EQ(back, c) << text;
  }
  EXPECT_EQ(pipeline_layout_text({3, 2, 2, 1}), "Et*3|(tt|)*2tL");
}

TEST(PipelineSplit, FormsGiveTheCountsOneExpects) {
  struct Case {
    Asked asked;
    Counts stages;
    int vpp = 1;
  };
  for (const Case& c : std::vector<Case>{
           {{2, 1, 12, {}}, {}},
           {{2, 1, 12, ends(9, {})}, {9, 3}},
           {{2, 1, 12, ends({}, 3)}, {9, 3}},
           {{4, 1, 14, ends(2, 4)}, {2, 4, 4, 4}},
           {{2, 1, 12, ends(9, 3)}, {9, 3}},
           {{4, 2, 28, ends(4, 8)}, {2, 4, 4, 4, 2, 4, 4, 4}, 2},
           {{2, 1, 12, ends(6, {})}, {}},  // even after all
           {{4, 1, 126, counted(true, true)}, {31, 32, 32, 31}},
           {{4, 1, 15, counted(true, false)}, {3, 4, 4, 4}},
           {{2, 4, 15, counted(false, true)}, {2, 2, 2, 2, 2, 2, 2, 1}, 4},
           {{4, 1, 32, chunk_layers(2)}, {}, 4},
           {{16, 1, 61, layout("Et*3|(tt|)*29,|L")}, [] {
              Counts l(32, 2);
              l[0] = 3, l[30] = l[31] = 0;
              return l;
            }(), 2},
           {{1, 1, 4, layout("EttttL")}, {}},
       }) {
    const Answer a = answer(c.asked);
    EXPECT_EQ(a.problems, "");
    EXPECT_EQ(a.stages, c.stages) << c.asked.layers << " layers, pp " << c.asked.pp;
    EXPECT_EQ(a.vpp, c.vpp);
  }
}

TEST(PipelineSplit, ClashesCarryBothNumbersAndALegalNeighbour) {
  struct Case {
    Asked asked;
    const char* what;
    const char* nearest;
  };
  for (const Case& c : std::vector<Case>{
           {{4, 1, 13, ends(2, 4)}, "num-layers 13 less first 2 and last 4 is 7, which 2 other pipeline ranks",
            "decoder-last-pipeline-num-layers 3 or 5, or --pipeline-model-parallel-layout 'Et*3|t*4|(t*3|)*1"},
           {{2, 1, 12, ends(9, 4)}, "is -1", "decoder-last-pipeline-num-layers 3"},
           {{2, 2, 12, ends(9, {})}, "decoder-first-pipeline-num-layers 9 is not divisible by num-virtual-stages-per-pipeline-rank 2",
            "8 or 10"},
           {{1, 1, 12, ends(9, {})}, "with pipeline-model-parallel-size 1", "pipeline-model-parallel-size 2"},
           {{4, 1, 126, counted(true, false)}, "num-layers 126 and 1 counted for embedding and loss are not divisible by pp·vpp 4",
            "num-layers 123 or 127"},
           {{4, 1, 30, chunk_layers(2)}, "30 layers are not divisible by pipeline-model-parallel-size 4",
            "pipeline-model-parallel-size 3 or 5"},
           {{4, 1, 32, chunk_layers(3)}, "does not divide the 8 layers of a pipeline rank", "2 or 4"},
           {{4, 2, 32, chunk_layers(4)}, "and num-virtual-stages-per-pipeline-rank 2", "one of them"},
           {{2, 1, 4, layout("Et|t|ttL")}, "has 3 stages, no multiple of pipeline-model-parallel-size 2", "2 or 4 stages"},
           {{2, 1, 4, layout("Et|ttL")}, "has 3 layers (letters t), num-layers is 4", "'Ett|ttL'"},
           {{2, 1, 4, layout("tt|ttL")}, "must hold one E, at its beginning", "'Ett|ttL'"},
           {{2, 1, 3, layout("Ett|tmL")}, "1 multi-token prediction layers", "without m"},
           {{2, 3, 4, layout("Et|t|t|tL")}, "4 stages, 2 for each of 2 pipeline ranks, and virtual stages are said to be 3",
            "num-virtual-stages-per-pipeline-rank 2"},
           {{2, 1, 4, layout("Etz|ttL")}, "'z' is no letter", "letters E, t and L"},
       }) {
    const Answer a = answer(c.asked);
    EXPECT_NE(a.problems.find(c.what), std::string::npos) << a.problems;
    const std::string near = c.nearest;
    EXPECT_NE(a.problems.find(near.substr(0, near.find("'Et*3"))), std::string::npos) << a.problems;
  }
}

TEST(PipelineSplit, FormsThatExcludeEachOtherAreRefused) {
  auto both = layout("Ett|ttL");
  both.first_layers = 2;
  EXPECT_NE(answer({2, 1, 4, both}).problems.find("exclude each other"), std::string::npos);
  auto chunks = layout("Ett|ttL");
  chunks.layers_per_virtual_stage = 1;
  EXPECT_NE(answer({2, 1, 4, chunks}).problems.find("exclude each other"), std::string::npos);
}

TEST(PipelineSplit, TheNearlyEvenOneHoldsEveryLayerAndDiffersByOne) {
  for (int stages = 1; stages <= 9; ++stages)
    for (int layers = stages; layers <= 40; ++layers) {
      const Counts c = nearly_even_split(layers, stages);
      EXPECT_EQ(std::accumulate(c.begin(), c.end(), 0), layers);
      EXPECT_LE(*std::max_element(c.begin(), c.end()) - *std::min_element(c.begin(), c.end()), 1);
      EXPECT_EQ(answer({stages, 1, layers, layout(pipeline_layout_text(c))}).problems, "");
    }
}

TEST(PipelineSplit, TheMapNamesEveryStageOnce) {
  ParallelSpec p;
  p.pp = 2, p.vpp = 2;
  p.stage_layers = {2, 0, 1, 1};
  std::string all;
  for (const auto& s : stage_map(p, 4)) all += fmt::format("{} {} {} {}; ", s.stage, s.pp_rank, s.chunk, s.holds);
  EXPECT_EQ(all, "0 0 0 embedding, layers 0-1; 1 1 0 nothing; 2 0 1 layer 2; 3 1 1 layer 3, output; ");
}

TEST(PipelineSplit, IsKeptInTheManifest) {
  ParallelSpec p;
  p.pp = 2, p.stage_layers = {9, 3};
  EXPECT_EQ(parallel_from_json(to_json(p), "here").stage_layers, (Counts{9, 3}));
  EXPECT_EQ(parallel_text(p), "tp 1, cp 1, pp 2, dp 1, stages Et*9|t*3L");
}

}  // namespace
}  // namespace mt
