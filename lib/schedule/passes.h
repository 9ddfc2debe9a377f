#pragma once
// Passes: a schedule in, the same work in another order or with more steps out.
//
// Order: split_merged, defer_weight_gradients and insert_recompute change acts; insert_communication comes last, overlap_p2p
// after it. insert_recompute may also come behind insert_communication: the act then stands behind the gradient's receive.
// Every pass keeps a sound schedule sound (faults_of). Code: schedule/passes.cc. Tests: tests/schedule/passes_test.cc.

#include "schedule/schedule.h"

namespace mt {

// Split every whole backward, and put its weight gradient behind the `delay[rank]`-th input gradient that follows (0:
// at once); what is then left comes last. Merged steps stay whole.
//   needs  delay by pipeline rank
Schedule defer_weight_gradients(Schedule schedule, const std::vector<int>& delay);

// Every merged step as its forward and then its whole backward, for an executor that does not interleave the two.
Schedule split_merged(Schedule schedule);

// A recompute act before every backward (or input gradient) on these ranks.
Schedule insert_recompute(Schedule schedule, const std::vector<int>& ranks);

// Four channels between neighbours: activations or gradients, to the next rank of the ring or to the one before.
//   gives  2·(gradient) + (to the rank before)
int channel_of(bool gradient, int from, int to, int pp);

// A send after every act whose result another rank reads, and a receive, posted just before the act that reads it, but
// never behind one the same channel sends later: receives of a channel stand in the peer's order of sends. Stages on one
// rank hand over without a message.
//   needs  no sends or receives in it
Schedule insert_communication(Schedule schedule);

// Post every receive `acts_ahead` acts earlier, so that the transfer runs beside them; the order on a channel stays.
//   needs  insert_communication was here
Schedule overlap_p2p(Schedule schedule, int acts_ahead);

}  // namespace mt
