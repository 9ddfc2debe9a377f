// The search over the rules of list_schedule.

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "schedule/list_schedule.h"

namespace mt {

namespace {

constexpr double kTie = 1e-9;
constexpr int kPlaces = 9;  // of weight gradients that try_order tries
constexpr int kFinalists = 8;

class Search {
 public:
  // With `only` nothing is tried but what has these numbers, counted over all that could be.
  Search(const std::string& name, const ListProblem& p, std::set<int> only = {}) : name_(name), p_(p), only_(std::move(only)) {}

  // One of the next n is to be tried.
  bool wants_of_next(int n) const {
    const auto first = only_.lower_bound(number_);
    return only_.empty() || (first != only_.end() && *first < number_ + n);
  }
  void pass_over(int n) { number_ += n; }

  void try_rules(const ListRules& rules) {
    const int number = number_++;
    if (!only_.empty() && only_.count(number) == 0) return;
    auto tried = list_schedule(name_, p_, rules, reached_);
    if (!tried) return;
    const auto [span, peak] = reached_;
    if (tried->makespan > span + kTie || (tried->makespan > span - kTie && tried->peak >= peak - kTie)) return;
    best_ = std::move(tried->schedule), reached_ = {tried->makespan, tried->peak};
    improved_.push_back(number);
  }

  // All places of weight gradients for one order of the rest; an order that was tried before gives nothing new.
  void try_order(ListRules rules) {
    if (!rules.order.empty() && !orders_.insert(hash_of(rules.order)).second) return pass_over(kPlaces);
    for (const double gap : {0.0, 0.25, 0.5, 0.75, 1.0})
      for (const bool even_out : {false, true}) {
        if (gap == 0.0 && even_out) continue;
        rules.least_gap = gap, rules.even_out = even_out;
        try_rules(rules);
      }
  }

  Schedule best() { return std::move(best_); }
  // The numbers of the last of those that were the best so far.
  std::set<int> improved() const { return {improved_.end() - std::min<std::ptrdiff_t>(std::ssize(improved_), kFinalists), improved_.end()}; }

 private:
  static std::uint64_t hash_of(const std::vector<Lane>& lanes) {
    Xxh3Stream hash;
    for (const Lane& lane : lanes) {
      std::vector<int> words{static_cast<int>(lane.size())};
      for (const Step& s : lane) words.insert(words.end(), {static_cast<int>(s.act), s.chunk, s.micro_batch});
      hash.update(words.data(), words.size() * sizeof(int));
    }
    return hash.digest();
  }

  const std::string& name_;
  const ListProblem& p_;
  const std::set<int> only_;
  int number_ = 0;
  std::vector<int> improved_;
  Schedule best_;
  ListLimit reached_;
  std::set<std::uint64_t> orders_;
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
        if (!search.wants_of_next(kPlaces)) {
          search.pass_over(kPlaces);
          continue;
        }
        auto regular = list_schedule("", equal, rules);
        MT_CHECK(regular, "a list schedule without a limit was given up");
        rules.order = std::move(regular->schedule.lanes);
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
    // A rank that begins its backwards before the next one can would wait for ever.
    for (std::size_t r = warm_up.size(); r-- > 1;) warm_up[r - 1] = std::max(warm_up[r - 1], warm_up[r]);
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
    if (most > p.memory_cap * static_cast<double>(p.stage_of[0].size()) + kTie) {
      search.pass_over(kPlaces);
      continue;
    }
    search.try_order({.order = order});
  }
}

void try_all(Search& search, const ListProblem& p) {
  try_given(search, p);
  if (p.stage_of[0].size() == 1) try_in_turn(search, p);
  try_lists(search, p);
}

ListProblem first_micro_batches(const ListProblem& p, int n) {
  ListProblem fewer = p;
  fewer.num_micro_batches = n;
  for (auto& order : fewer.orders)
    for (Lane& lane : order) std::erase_if(lane, [n](const Step& s) { return s.micro_batch >= n; });
  return fewer;
}

}  // namespace

Schedule best_list_schedule(const std::string& name, const ListProblem& problem) {
  const std::int64_t pp = std::ssize(problem.stage_of), chunks = std::ssize(problem.stage_of[0]);
  std::set<int> finalists;
  const std::int64_t few = std::max(2 * pp, kSearched / (pp * chunks));
  if (problem.num_micro_batches > few) {
    const ListProblem fewer = first_micro_batches(problem, static_cast<int>(few));
    Search search(name, fewer);
    try_all(search, fewer);
    finalists = search.improved();
  }
  Search search(name, problem, finalists);
  try_all(search, problem);
  return search.best();
}

}  // namespace mt
