#include <algorithm>

#include "schedule/schedule.h"

namespace mt {

Schedule one_f_one_b(int pp, int m) {
  Schedule s{"1f1b", {}, {}, {}};
  for (int r = 0; r < pp; ++r) {
    Lane lane;
    const int warm_up = std::min(pp - r - 1, m);
    for (int i = 0; i < m + warm_up; ++i) {
      if (i < m) lane.push_back({.act = Act::forward, .micro_batch = i});
      if (i >= warm_up) lane.push_back({.act = Act::backward, .micro_batch = i - warm_up});
    }
    s.lanes.push_back(std::move(lane));
    s.stage_of.push_back({r});
    s.max_in_flight.push_back(std::min(pp - r, m));
  }
  return s;
}

}  // namespace mt
