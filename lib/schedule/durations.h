#pragma once
// How long acts take: the unit of time is the caller's.
//
// Times are of a rank's whole share of one model copy; one of its chunks takes 1/chunks of them. A whole backward takes
// backward_input + backward_weight. Tests: tests/schedule/clock_test.cc.

#include <vector>

namespace mt {

// A link whose cost differs from Durations::p2p.
struct LinkTime {
  int from = 0, to = 0;   // pipeline ranks
  double latency = 0;     // from the end of the transfer to its arrival
  double occupancy = 0;   // the link is busy this long for each message, in the order they are sent
};

struct Durations {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double recompute = 0;           // of a recompute act
  double p2p = 0;                 // from the end of an act to its result at another rank
  double forward_backward = -1;   // of a merged forward and backward; negative: the sum of both
  double kept = 0.5;              // share of saved state that stays from backward_input to backward_weight
  bool early_recompute = false;   // a recompute act may start before the gradient is there
  std::vector<LinkTime> links;
  std::vector<double> stage_scale;  // by stage, factor of every act; empty: 1
};

}  // namespace mt
