// The search over the rules of list_schedule.

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/clock.h"
#include "schedule/list_schedule.h"

namespace mt {

namespace {

constexpr double kTie = 1e-9;

class Search {
 public:
  Search(const std::string& name, const ListProblem& p) : name_(name), p_(p) {}

  void try_rules(const ListRules& rules) {
    Schedule s = list_schedule(name_, p_, rules);
    const ScheduleReport report = report_of(s, p_.durations);
    const double span = report.makespan;
    const double peak = *std::max_element(report.peak_activations.begin(), report.peak_activations.end());
    if (span > span_ + kTie || (span > span_ - kTie && peak >= peak_ - kTie)) return;
    best_ = std::move(s), span_ = span, peak_ = peak;
  }

  // All places of weight gradients for one order of the rest.
  void try_order(ListRules rules) {
    for (const double gap : {0.0, 0.25, 0.5, 0.75, 1.0})
      for (const bool even_out : {false, true}) {
        if (gap == 0.0 && even_out) continue;
        rules.least_gap = gap, rules.even_out = even_out;
        try_rules(rules);
      }
  }

  Schedule best() { return std::move(best_); }

 private:
  const std::string& name_;
  const ListProblem& p_;
  Schedule best_;
  double span_ = std::numeric_limits<double>::infinity(), peak_ = span_;
};

// Orders as the list scheduler finds them for other times: equal ones, where its steady state is regular.
void try_lists(Search& search, const ListProblem& p) {
  ListProblem equal = p;
  equal.durations = {};
  equal.durations.kept = p.durations.kept;
  using Steady = ListRules::Steady;
  for (const Steady steady : {Steady::alternate, Steady::backward_first, Steady::forward_first})
    for (const bool ends : {true, false})
      for (const bool late : {true, false}) {
        if (!late && p.stage_of[0].size() == 1) continue;
        ListRules rules{.steady = steady, .backward_ends_warm_up = ends, .late_chunk_first = late};
        search.try_order(rules);
        rules.order = list_schedule("", equal, rules).lanes;
        for (Lane& lane : rules.order)
          lane.erase(std::remove_if(lane.begin(), lane.end(), [](const Step& s) { return s.act == Act::backward_weight; }),
                     lane.end());
        search.try_order(rules);
      }
}

// warm_up[rank] forwards, then backward and forward in turn.
std::vector<Lane> in_turn(const std::vector<int>& warm_up, int m) {
  std::vector<Lane> lanes;
  for (const int w : warm_up) {
    Lane lane;
    for (int i = 0; i < m + w; ++i) {
      if (i >= w) lane.push_back({.act = Act::backward_input, .micro_batch = i - w});
      if (i < m) lane.push_back({.act = Act::forward, .micro_batch = i});
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

// Forwards that fit between a rank's first forward and its first gradient.
std::vector<double> forwards_until_gradient(const ListProblem& p) {
  const auto& d = p.durations;
  const auto scale = [&](std::size_t r) { return r < d.stage_scale.size() ? d.stage_scale[r] : 1.0; };
  const auto hop = [&](std::size_t from, std::size_t to) {
    for (const auto& l : d.links)
      if (l.from == static_cast<int>(from) && l.to == static_cast<int>(to)) return l.latency + l.occupancy;
    return d.p2p;
  };
  std::vector<double> fit(p.stage_of.size());
  double wait = 0;
  for (std::size_t r = fit.size(); r-- > 0;) {
    if (r + 1 < fit.size()) wait += hop(r, r + 1) + hop(r + 1, r) + scale(r + 1) * d.backward_input;
    wait += scale(r) * d.forward;
    fit[r] = wait / std::max(scale(r) * d.forward, kTie);
  }
  return fit;
}

void try_in_turn(Search& search, const ListProblem& p) {
  const int pp = static_cast<int>(p.stage_of.size()), m = p.num_micro_batches;
  const auto try_warm_up = [&](auto count) {
    std::vector<int> warm_up;
    for (int r = 0; r < pp; ++r)
      warm_up.push_back(static_cast<int>(std::clamp(count(r), 1.0, std::min<double>(m, std::floor(p.memory_cap + kTie)))));
    search.try_order({.order = in_turn(warm_up, m)});
  };
  for (const double slope : {1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0})
    try_warm_up([&](int r) { return std::floor(slope * (pp - 1 - r)) + 1; });
  const auto fit = forwards_until_gradient(p);
  for (const double more : {0.0, 0.5, 0.999})
    try_warm_up([&](int r) { return std::floor(fit[static_cast<std::size_t>(r)] + more); });
}

void try_given(Search& search, const ListProblem& p) {
  for (const auto& order : p.orders) {
    const auto peaks = peak_in_flight({.lanes = order});
    const int most = *std::max_element(peaks.begin(), peaks.end());
    if (most > p.memory_cap * static_cast<double>(p.stage_of[0].size()) + kTie) continue;
    search.try_order({.order = order});
  }
}

}  // namespace

Schedule best_list_schedule(const std::string& name, const ListProblem& problem) {
  Search search(name, problem);
  try_given(search, problem);
  if (problem.stage_of[0].size() == 1) try_in_turn(search, problem);
  try_lists(search, problem);
  return search.best();
}

}  // namespace mt
