#include "schedule/schedule.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace mt {

const char* act_name(Act act) {
  constexpr const char* names[] = {"forward",         "backward",        "backward_input", "backward_weight", "recompute",
                                   "send_activation", "recv_activation", "send_gradient",  "recv_gradient"};
  return names[static_cast<int>(act)];
}

const std::vector<ScheduleRow>& schedule_table() {
  static const std::vector<ScheduleRow> rows = {{"1f1b", one_f_one_b}, {"gpipe", gpipe}};
  return rows;
}

namespace {

struct Progress {
  bool forward = false, input = false, weight = false;
};

class LaneChecker {
 public:
  LaneChecker(std::vector<std::string>& faults, int pp_rank, int bound)
      : faults_(faults), pp_rank_(pp_rank), bound_(bound) {}

  void step(const Step& s) {
    auto& p = seen_[{s.chunk, s.micro_batch}];
    switch (s.act) {
      case Act::forward:
        if (p.forward) fault(s, "forward twice");
        p.forward = true;
        if (++in_flight_ > bound_) fault(s, fmt::format("{} in flight, bound {}", in_flight_, bound_));
        break;
      case Act::backward:
      case Act::backward_input:
        if (!p.forward) fault(s, "backward before forward");
        if (p.input) fault(s, "backward twice");
        p.input = true;
        --in_flight_;
        if (s.act == Act::backward_input) break;
        [[fallthrough]];
      case Act::backward_weight:
        if (!p.input) fault(s, "weight gradient before input gradient");
        if (p.weight) fault(s, "weight gradient twice");
        p.weight = true;
        if (auto& last = last_weight_[s.chunk]; s.micro_batch < last)
          fault(s, fmt::format("weight gradient after that of micro-batch {}", last));
        else
          last = s.micro_batch;
        break;
      default:
        break;
    }
  }

  void end(int chunks, int num_micro_batches) {
    for (int c = 0; c < chunks; ++c)
      for (int m = 0; m < num_micro_batches; ++m)
        if (const auto& p = seen_[{c, m}]; !p.forward || !p.input || !p.weight)
          faults_.push_back(fmt::format("rank {}: chunk {} micro-batch {} is not finished", pp_rank_, c, m));
    if (seen_.size() != static_cast<std::size_t>(chunks) * static_cast<std::size_t>(num_micro_batches))
      faults_.push_back(fmt::format("rank {}: steps of unknown chunks or micro-batches", pp_rank_));
  }

 private:
  void fault(const Step& s, const std::string& what) {
    faults_.push_back(fmt::format("rank {}: {} of chunk {} micro-batch {}: {}", pp_rank_, act_name(s.act), s.chunk,
                                  s.micro_batch, what));
  }
  std::vector<std::string>& faults_;
  int pp_rank_, bound_, in_flight_ = 0;
  std::map<std::pair<int, int>, Progress> seen_;
  std::map<int, int> last_weight_;
};

}  // namespace

std::vector<std::string> faults_of(const Schedule& s, int num_micro_batches) {
  std::vector<std::string> faults;
  if (s.lanes.size() != s.stage_of.size() || s.lanes.size() != s.max_in_flight.size())
    return {"lanes, stage_of and max_in_flight differ in length"};
  for (std::size_t r = 0; r < s.lanes.size(); ++r) {
    LaneChecker checker(faults, static_cast<int>(r), s.max_in_flight[r]);
    for (const auto& step : s.lanes[r]) checker.step(step);
    checker.end(static_cast<int>(s.stage_of[r].size()), num_micro_batches);
  }
  return faults;
}

}  // namespace mt
