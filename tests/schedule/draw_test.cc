#include <gtest/gtest.h>

#include "schedule/draw.h"

namespace mt {
namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Drawing, ShowsEveryStepWhereTheClockHasIt) {
  const auto s = make_schedule("1f1b", {.pp = 2, .num_micro_batches = 2});
  EXPECT_EQ(draw_text(s, run_clock(s, {})),
            "  0 |F0 F1 ......B0--- ...B1--- |\n"
            "  1 |...F0 B0--- F1 B1--- ......|\n");
}

TEST(Drawing, NamesChunksAndMergedHalves) {
  const auto s = make_schedule("dualpipe", {.pp = 2, .num_micro_batches = 4});
  EXPECT_EQ(step_label(s, {.act = Act::forward_backward, .chunk = 0, .micro_batch = 1, .backward_chunk = 1,
                           .backward_micro_batch = 3}), "X1a/3b");
  EXPECT_EQ(step_label(s, {.act = Act::send_gradient}), "");
}

TEST(Drawing, StaysWithinItsWidth) {
  const auto s = make_schedule("1f1b", {.pp = 4, .num_micro_batches = 200});
  const auto text = draw_text(s, run_clock(s, {}), 100);
  EXPECT_EQ(count(text, "\n"), 4);
  EXPECT_EQ(text.find('\n'), std::string("  0 ||").size() + 100);
}

TEST(Drawing, SvgHoldsABoxAStepAndEscapesTheName) {
  auto s = make_schedule("zb-h1", {.pp = 3, .num_micro_batches = 5});
  s.name = "a<b&c";
  const auto svg = draw_svg(s, run_clock(s, {}));
  EXPECT_EQ(count(svg, "<g><title>"), 3 * 5 * 3);
  EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
  EXPECT_NE(svg.find("a&lt;b&amp;c: 3 ranks, 5 micro-batches"), std::string::npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

}  // namespace
}  // namespace mt
