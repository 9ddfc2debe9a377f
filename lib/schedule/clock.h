#pragma once
// A clock over the lanes: when each step starts and ends, and what the schedule is worth.
//
// A rank does its steps one after the other; an act starts when its rank is free and what it reads has arrived. Work
// that comes from another rank arrives `p2p` after the act that made it; where the lanes hold sends and receives, after
// the later of the send and the posting of its receive, so a receive posted late costs its latency.
// Code: schedule/clock.cc. Tests: tests/schedule/clock_test.cc, published_bubbles_test.cc.

#include <string>
#include <vector>

#include "base/json.h"
#include "schedule/schedule.h"

namespace mt {

struct StepTime {
  double start = 0, end = 0;
};

struct LaneTimes {
  std::vector<std::vector<StepTime>> times;  // as the lanes; a step that never starts has end < start
  std::vector<std::string> stuck;            // one line a rank that waits for ever, empty when all lanes end
};

// When everything happens.   needs  chunks and micro-batches of all steps within the schedule's numbers
//   cost  linear in the steps, times the number of turns that ranks wait for each other
LaneTimes run_clock(const Schedule& schedule, const Durations& durations);

struct ScheduleReport {
  double makespan = 0;  // longest time from a rank's first start to its last end: what a step costs when each rank goes
                        // on to the next one by itself. At one start of all ranks `finish` counts.
  double finish = 0;    // last end of all ranks, from the first start
  double work = 0;      // acts of the busiest rank
  double bubble = 0;    // 1 − work/makespan
  double bubble_over_ideal = 0;         // makespan/work − 1
  std::vector<double> busy;             // by rank
  std::vector<int> peak_in_flight;      // by rank: forwards whose input gradient is still to come, in chunks
  std::vector<double> peak_activations; // by rank, in its share of one micro-batch: a chunk is 1/chunks of it, and
                                        // `kept` of that stays until the weight gradient is done. At kept = 1 and
                                        // times chunks/copies: the slots an executor needs that frees them whole
};

// needs  a sound schedule (faults_of), as its timeline gives no meaning otherwise
ScheduleReport report_of(const Schedule& schedule, const Durations& durations);
Json to_json(const ScheduleReport& report);

}  // namespace mt
