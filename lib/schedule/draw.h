#pragma once
// A schedule over time as a picture: plain text, and SVG.
//
// Letters: F forward, B backward, D input gradient, W weight gradient, R recompute, X forward with backward, then the
// micro-batch, then a letter for the chunk (a, b, …) where a rank holds several. Code: schedule/draw.cc. Tests:
// tests/schedule/draw_test.cc.

#include <string>

#include "schedule/clock.h"
#include "schedule/schedule.h"

namespace mt {

// "F12b", "X3a/7b"; empty for messages and the like, which take no time here.
std::string step_label(const Schedule& schedule, const Step& step);

// A line a rank, dots where it waits, at most `most_columns` wide (labels are cut where steps are too narrow).
std::string draw_text(const Schedule& schedule, const LaneTimes& timeline, int most_columns = 400);

// A standing SVG document of the timeline with axis and legend; hovering over a step tells it in words.
std::string draw_svg(const Schedule& schedule, const LaneTimes& timeline);

}  // namespace mt
