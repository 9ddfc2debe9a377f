#pragma once
// A pipeline schedule is data: per rank a lane of steps, read by generators, passes, validator, clock and executor.
//
//   pp     pipeline ranks      m  micro-batches      chunk  a piece of the model a rank holds (virtual stage)
//   stage  place of a chunk in the model's order, 0 … stages−1; a chunk's input comes from the stage before
//   copy   a whole set of weights; all schedules but dualpipe hold one
// One stage runs through the executor too: a lane with one rank. Code: schedule/schedule.cc, validate.cc, one file a
// generator. Further: durations.h, clock.h (time), passes.h (communication, deferral), text_form.h (files), draw.h.
// Tests: tests/schedule/ (exhaustive validation).

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/durations.h"

namespace mt {

enum class Act : std::uint8_t {
  forward,
  backward,          // input and weight gradients together
  backward_input,
  backward_weight,
  forward_backward,  // a forward, and a whole backward of another micro-batch, interleaved by the executor
  recompute,         // saved tensors once more, before the backward that reads them
  send_activation,
  recv_activation,   // posts a receive; the act that reads it waits
  send_gradient,
  recv_gradient,
  swap_out,          // saved tensors to the host
  swap_in,
  collective,        // a gather or reduce of parameters; all ranks of its group hold it
};
const char* act_name(Act act);
bool is_send(Act act);
bool is_recv(Act act);

struct Step {
  Act act = Act::forward;
  int tower = 0, chunk = 0, micro_batch = 0;
  int first_segment = 0, last_segment = -1;  // of a unit's segment table; −1 is the end
  int peer = -1, channel = -1;               // of sends and receives
  int backward_chunk = -1, backward_micro_batch = -1;  // of forward_backward: its second half
  bool operator==(const Step&) const = default;
};

using Lane = std::vector<Step>;

struct Schedule {
  std::string name;
  int num_micro_batches = 0;
  std::vector<Lane> lanes;                  // by pipeline rank
  std::vector<std::vector<int>> stage_of;   // [pp_rank][chunk]
  std::vector<int> max_in_flight;           // by pipeline rank: forwards whose input gradient is still to come, at most
  int copies = 1;  // of the weights; chunk c belongs to copy c mod copies, micro-batches are dealt in equal runs

  int pp() const { return static_cast<int>(lanes.size()); }
  int chunks() const { return stage_of.empty() ? 0 : static_cast<int>(stage_of[0].size()); }
  int stages() const { return pp() * chunks() / copies; }
  int copy_of(int micro_batch) const { return micro_batch / ((num_micro_batches + copies - 1) / copies); }
  bool operator==(const Schedule&) const = default;
};

// What is asked of a generator.
struct ScheduleSpec {
  int pp = 1, num_micro_batches = 1;
  int chunks = 0;         // 0: the schedule's own number
  int group_size = 0;     // interleaved: micro-batches that walk through the chunks together; 0: pp
  double memory_cap = 0;  // zb-1p, zb-2p, zb-v: activations of a rank, in its share of one micro-batch; 0: the name's own
  Durations durations;    // read by the generators that search
};

// A generator, what it can be asked and what it asks of an executor.
struct ScheduleRow {
  const char* name;
  const char* words;  // one line, for manuals and errors
  Schedule (*generate)(const ScheduleSpec&) = nullptr;   // needs  problem_of is empty
  std::string (*problem)(const ScheduleSpec&) = nullptr;  // beyond the limits below; may be null
  int min_chunks = 1, max_chunks = 1;  // 0: no limit
  bool needs_split_backward = false;   // has backward_input and backward_weight
  bool needs_merged = false;           // has forward_backward
  int copies = 1;                      // of the weights
  bool v_shape = false;                // odd chunks run from the last rank back to the first

  // Whole forwards and backwards of one chunk over one copy, and nothing else.
  bool is_plain() const { return max_chunks == 1 && !needs_split_backward && !needs_merged && copies == 1; }
};

// The generators by name: one file and one row each (schedule_table.cc).
const std::vector<ScheduleRow>& schedule_table();
const ScheduleRow* find_schedule(const std::string& name);  // null: no such name

// Why a generator cannot make what is asked, or empty.
std::string problem_of(const ScheduleRow& row, const ScheduleSpec& spec);

// A schedule by name.   fails  Error{usage} no such name, Error{config} with problem_of's words
Schedule make_schedule(const std::string& name, const ScheduleSpec& spec);

// The two that run anywhere, without the table's detour.
Schedule one_f_one_b(int pp, int num_micro_batches);
Schedule gpipe(int pp, int num_micro_batches);

// What is wrong with a schedule, one line a fault; empty when it is sound:
//   every micro-batch forward once and backward once on every chunk of its copy, forward before backward, weight
//   gradients after input gradients and in ascending micro-batches; every stage held exactly once in a copy;
//   forwards in flight within max_in_flight;
//   sends and receives (when there are any) pair up: k-th send of a channel with the k-th receive at the peer, of the
//   same tensor, each after what makes it and before what reads it, none missing and none left over;
//   all lanes run to their end: no step waits for one that waits for it.
//   cost  linear in the steps
std::vector<std::string> faults_of(const Schedule& schedule);

// The schedule without the micro-batches from `num_micro_batches` on: as sound as the whole. Bounds are counted anew.
Schedule first_micro_batches(Schedule schedule, int num_micro_batches);

// Forwards in flight at most, by rank; a merged step's forward counts before its backward ends.
std::vector<int> peak_in_flight(const Schedule& schedule);

}  // namespace mt
