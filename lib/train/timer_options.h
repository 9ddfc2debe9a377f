#pragma once
// What is measured and printed of a run's time. Code that reads it: train/timers.cc. Tests: tests/train/timeline_test.cc.

#include <string>

namespace mt {

struct TimerOptions {
  int log_level = 0;                 // 0: none; 1: phases of a step; 2: acts of the lane and stand-stills too
  std::string log_option = "minmax";  // or max, all
  bool straggler = false;
};

}  // namespace mt
