#pragma once
// A pipeline schedule is data: per rank a lane of steps, read by generators, passes, validator, clock and executor.
//
//   pp  pipeline ranks    m  micro-batches    chunk  a piece of the model a rank holds (virtual stage)
//   stage = place of a chunk in the model's order, 0 … pp·chunks−1
// One stage runs through the executor too: a lane with one rank. Code: schedule/schedule.cc, one file a generator.
// Tests: tests/schedule/ (exhaustive validation).

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

enum class Act : std::uint8_t {
  forward,
  backward,         // input and weight gradients together
  backward_input,
  backward_weight,
  recompute,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient,
};
const char* act_name(Act act);

struct Step {
  Act act = Act::forward;
  int tower = 0, chunk = 0, micro_batch = 0;
  int first_segment = 0, last_segment = -1;  // of a unit's segment table; −1 is the end
  int peer = -1, channel = -1;               // of sends and receives
  bool operator==(const Step&) const = default;
};

using Lane = std::vector<Step>;

struct Schedule {
  std::string name;
  std::vector<Lane> lanes;                  // by pipeline rank
  std::vector<std::vector<int>> stage_of;   // [pp_rank][chunk]
  std::vector<int> max_in_flight;           // by pipeline rank: forwards whose backward is still to come, at most
};

// 1F1B: warm-up of pp − rank − 1 forwards, then one forward one backward, then the rest. In flight ≤ min(pp − rank, m).
Schedule one_f_one_b(int pp, int num_micro_batches);
// All forwards, then all backwards. In flight ≤ m.
Schedule gpipe(int pp, int num_micro_batches);

// The generators by name: one row a schedule.
struct ScheduleRow {
  const char* name;
  Schedule (*generate)(int pp, int num_micro_batches);
};
const std::vector<ScheduleRow>& schedule_table();

// What is wrong with a schedule, one line a fault; empty when it is sound: every micro-batch forward once and backward
// once on every chunk, forward before backward, weight gradients after input gradients, weight gradients in ascending
// micro-batches, in-flight count within max_in_flight.
std::vector<std::string> faults_of(const Schedule& schedule, int num_micro_batches);

}  // namespace mt
