#pragma once
// Schedules made by search: a list scheduler plays the pipeline forward in time and decides at every free rank.
// Internal to lib/schedule.

#include <limits>
#include <optional>

#include "schedule/schedule.h"

namespace mt {

struct ListRules {
  enum class Steady { alternate, backward_first, forward_first } steady = Steady::alternate;
  bool backward_ends_warm_up = true;  // or: forwards first as long as memory allows
  double least_gap = 0;               // a weight gradient starts if nothing else comes for this share of its time
  bool late_chunk_first = true;       // of several chunks that could run, the one nearer to the end of the model
  bool even_out = false;              // a weight gradient also starts where waiting would make this rank the idlest
  // Forwards and input gradients in the order of these lanes, by rank; only the place of weight gradients is searched
  // and `steady` and `backward_ends_warm_up` mean nothing. Empty: as they come.
  std::vector<Lane> order;
};

struct ListProblem {
  std::vector<std::vector<int>> stage_of;  // one copy
  int num_micro_batches = 1;
  double memory_cap = 1;  // activations of a rank, in its share of one micro-batch
  Durations durations;
  // Orders of forwards and input gradients that the search also tries, lanes by rank; those that need more than
  // memory_cap are passed over.
  std::vector<std::vector<Lane>> orders;
};

struct ListSchedule {
  Schedule schedule;
  double makespan = 0, peak = 0;  // as report_of has them: peak is that of the rank with the most activations
};

// What another schedule reached: one that is worse, or has no less of both, is not wanted.
struct ListLimit {
  double makespan = std::numeric_limits<double>::infinity(), peak = std::numeric_limits<double>::infinity();
};

// needs  memory_cap ≥ 1; lanes of `order` are sound and hold no more forwards in flight than memory_cap allows
// gives  lanes of forward, backward_input and backward_weight; always sound, peak_activations ≤ memory_cap; nothing as
//        soon as it is clear that it is not wanted: a rank's waits so far and its work are what it takes at least
// cost   steps × log pp
std::optional<ListSchedule> list_schedule(const std::string& name, const ListProblem& problem, const ListRules& rules,
                                          const ListLimit& limit = {});

// The best by makespan over all rules, then by peak of activations.
// Of a problem above kSearched all rules are tried with as many micro-batches as it allows, at least 2 pp, and at its own
// number those that were the best so far at their time there.
//   cost  some hundred list schedules of kSearched, most of them given up on the way
constexpr std::int64_t kSearched = 16384;  // pp × chunks × micro-batches: 64 × 2 × 128
Schedule best_list_schedule(const std::string& name, const ListProblem& problem);

}  // namespace mt
