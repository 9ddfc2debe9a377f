#pragma once
// Which arenas a lane of a pipeline schedule needs, and which micro-batches share one: pure book-keeping that executor
// and memory plan both follow, so that one predicts the other.
//
//   slot       memory of one micro-batch on one chunk, from its first step (a receive, or the forward) to its last
//   kept       what a split backward holds from backward_input to backward_weight
//   recompute  tensors made again, from the recompute act (or the backward) to the end of the input gradient
// Code: plan/lane_use.cc. Tests: tests/plan/lane_use_test.cc.

#include <set>
#include <vector>

#include "schedule/schedule.h"

namespace mt {

// Numbered places, taken and given back. A place that served the same chunk before is taken first: chunks differ in size.
class PlaceTable {
 public:
  // The place of (chunk, micro-batch), −1 when it has none.
  int find(int chunk, int micro_batch) const;
  // A free place, or a new one, whose number is then size() − 1.
  int take(int chunk, int micro_batch);
  void give_back(int place);
  int size() const { return static_cast<int>(places_.size()); }
  // Chunks a place has served.
  const std::set<int>& chunks(int place) const { return places_[static_cast<std::size_t>(place)].served; }

 private:
  struct Place {
    int chunk = -1, micro_batch = -1, last_chunk = -1;
    std::set<int> served;
  };
  std::vector<Place> places_;
};

struct LaneUse {
  PlaceTable slots, kept, recompute;
  bool whole_backward = false, split_backward = false;
  int gradients_sent = 0;
};

// needs  `recomputes` by chunk: something of it is made again
LaneUse lane_use(const Lane& lane, const std::vector<bool>& recomputes);

// By step: true if no later step is of the same chunk and micro-batch; its slot is given back behind it.
std::vector<bool> last_steps(const Lane& lane);
// True if the input gradient that follows `step` (or is it) leaves its weight gradient to a step of its own.
bool splits_backward(const Lane& lane, std::size_t step);

}  // namespace mt
