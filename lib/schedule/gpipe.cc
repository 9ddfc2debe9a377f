#include "schedule/schedule.h"

namespace mt {

Schedule gpipe(int pp, int m) {
  Schedule s{"gpipe", {}, {}, {}};
  for (int r = 0; r < pp; ++r) {
    Lane lane;
    for (int i = 0; i < m; ++i) lane.push_back({.act = Act::forward, .micro_batch = i});
    for (int i = 0; i < m; ++i) lane.push_back({.act = Act::backward, .micro_batch = i});
    s.lanes.push_back(std::move(lane));
    s.stage_of.push_back({r});
    s.max_in_flight.push_back(m);
  }
  return s;
}

}  // namespace mt
