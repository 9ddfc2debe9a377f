#include "cli/run_tool.h"

namespace mt {
namespace {

using MtTopoSchedule = test::ToolTest;

TEST_F(MtTopoSchedule, JsonIsOneObjectWithMakespanBubbleAndPeaks) {
  const auto o = good("mt-topo schedule --schedule 1f1b --pp 4 --num-microbatches 8 --json").objects();
  ASSERT_EQ(o.size(), 1u);
  EXPECT_EQ(o[0]["makespan"], 33.0);
  EXPECT_NEAR(o[0]["bubble"].get<double>(), 9.0 / 33, 1e-12);
  EXPECT_EQ(o[0]["peak_in_flight"], (std::vector<int>{4, 3, 2, 1}));
}

TEST_F(MtTopoSchedule, WhatItPrintsCanBeReadBack) {
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "zb-v", "dualpipe-v",
                                 "dualpipe"}) {
    const std::string flags = " --pp 4 --num-microbatches 8 --receive-ahead 1";
    const auto first = good("mt-topo schedule --schedule " + name + flags + " > a.tsv && mt-topo schedule --schedule ./a.tsv > b.tsv && cat b.tsv");
    EXPECT_EQ(read_file(*this / "a.tsv"), first.out) << name;
    EXPECT_EQ(good("mt-topo schedule --schedule - --json < a.tsv").objects(),
              good("mt-topo schedule --schedule " + name + flags + " --json").objects());
  }
}

TEST_F(MtTopoSchedule, CostsChangeTheTimesAndARecomputeCostAddsRecomputes) {
  const auto span = [&](const std::string& cost) {
    return good("mt-topo schedule --schedule 1f1b --pp 4 --num-microbatches 12 --json" + cost).objects()[0]["makespan"].get<double>();
  };
  EXPECT_DOUBLE_EQ(span(""), 45);
  EXPECT_DOUBLE_EQ(span(" --cost F=2,D=2,W=2"), 90);
  EXPECT_DOUBLE_EQ(span(" --cost R=1"), 60);  // a third more
  EXPECT_CONTAINS(good("mt-topo schedule --schedule gpipe --pp 1 --num-microbatches 1 --cost R=1").out, "recompute\t0\t0\n");
}

TEST_F(MtTopoSchedule, DrawsAnSvgFile) {
  good("mt-topo schedule --schedule zb-v --pp 2 --num-microbatches 4 --svg v.svg");
  const auto svg = read_file(*this / "v.svg");
  EXPECT_EQ(svg.substr(0, 5), "<svg ");
  EXPECT_CONTAINS(svg, "zb-v: 2 ranks, 4 micro-batches");
  good("mt-topo schedule --schedule zb-v --pp 2 --num-microbatches 2 --svg v.svg");
  good("echo 'a corpus' > corpus.txt");
  const auto o = run("mt-topo schedule --schedule zb-v --pp 2 --num-microbatches 2 --svg corpus.txt");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "what is there is no SVG");
  EXPECT_EQ(read_file(*this / "corpus.txt"), "a corpus\n");
}

TEST_F(MtTopoSchedule, MistakesHaveTheirStatusAndSayWhatWouldBeRight) {
  const struct { const char* flags; int status; const char* words; } cases[] = {
      {"", 2, "no schedule given"},
      {"--schedule 1f2b --pp 2 --num-microbatches 2", 2, "did you mean 1f1b?"},
      {"--schedule 1f1b --pp 2", 2, "needs --pp and --num-microbatches"},
      {"--schedule 1f1b --pp 0 --num-microbatches 2", 2, "0 is not between"},
      {"--schedule 1f1b --pp 2 --num-microbatches 2 --cost Q=1", 2, "'Q=1' is unknown"},
      {"--schedule 1f1b --pp 2 --num-microbatches 2 --cost F=-1", 2, "F is '-1'"},
      {"--schedule 1f1b --pp 2 --num-microbatches 2 --cost F=0,D=0,W=0", 2, "nothing takes time"},
      {"--schedule 1f1b --pp 2 --num-microbatches 2 --receive-ahead -1", 2, "-1 acts"},
      {"--schedule zb-v --pp 2 --num-microbatches 2 --memory-cap 0.5", 2, "at least one activation"},
      {"--schedule dualpipe --pp 3 --num-microbatches 8", 3, "the number of ranks is even"},
      {"--schedule 1f1b --pp 60000 --num-microbatches 60000", 3, "steps"},
      {"--schedule ./none.tsv", 5, "none.tsv"},
      {"--schedule ./odd.tsv", 6, "odd.tsv:1"},
      {"--schedule ./good.tsv --pp 3", 3, "--pp is 3, the file has 2"},
      {"--schedule ./bad.tsv", 6, "is not sound"},
      {"--schedule 1f1b --pp 2 --num-microbatches 2 --svg no/where.svg", 5, "no/where.svg"},
      {"--schedule 1f1b --pp 2 --num-microbatches 2 > /dev/full", 5, ""}};
  good("echo hello > odd.tsv; mt-topo schedule --schedule gpipe --pp 2 --num-microbatches 2 > good.tsv; "
       "grep -v '^backward.0.1' good.tsv > bad.tsv");
  for (const auto& c : cases) {
    const auto o = run(std::string("mt-topo schedule ") + c.flags);
    EXPECT_EQ(o.status, c.status) << c.flags << "\n" << o.err;
    EXPECT_CONTAINS(o.err, c.words);
  }
}

}  // namespace
}  // namespace mt
