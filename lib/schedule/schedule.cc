#include "schedule/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/options.h"

namespace mt {

const char* act_name(Act act) {
  constexpr const char* names[] = {"forward",         "backward",        "backward_input",   "backward_weight",
                                   "forward_backward", "recompute",       "send_activation",  "recv_activation",
                                   "send_gradient",   "recv_gradient",   "swap_out",         "swap_in",
                                   "collective"};
  return names[static_cast<int>(act)];
}

bool is_send(Act act) { return act == Act::send_activation || act == Act::send_gradient; }
bool is_recv(Act act) { return act == Act::recv_activation || act == Act::recv_gradient; }

const ScheduleRow* find_schedule(const std::string& name) {
  for (const auto& row : schedule_table())
    if (name == row.name) return &row;
  return nullptr;
}

std::string problem_of(const ScheduleRow& row, const ScheduleSpec& spec) {
  if (spec.pp < 1 || spec.num_micro_batches < 1) return "it needs at least one rank and one micro-batch";
  if (spec.chunks < 0 || spec.group_size < 0 || spec.memory_cap < 0) return "chunks, group size and memory are positive";
  if (spec.chunks > 0 && spec.chunks < row.min_chunks)
    return fmt::format("it has at least {} chunks a rank, not {}", row.min_chunks, spec.chunks);
  if (spec.chunks > 0 && row.max_chunks > 0 && spec.chunks > row.max_chunks)
    return fmt::format("it has {} chunk{} a rank, not {}", row.max_chunks, row.max_chunks == 1 ? "" : "s", spec.chunks);
  return row.problem != nullptr ? row.problem(spec) : "";
}

Schedule make_schedule(const std::string& name, const ScheduleSpec& spec) {
  const ScheduleRow* row = find_schedule(name);
  if (row == nullptr) {
    std::vector<std::string> names;
    std::string all;
    for (const auto& r : schedule_table()) {
      names.push_back(r.name);
      all += fmt::format("{}{}", all.empty() ? "" : ", ", r.name);
    }
    const auto nearest = nearest_name(name, names);
    throw Error(Code::usage, fmt::format("there is no schedule '{}'", name), "",
                nearest.empty() ? "one of " + all : fmt::format("did you mean {}? There are {}", nearest, all));
  }
  if (const auto problem = problem_of(*row, spec); !problem.empty())
    throw Error(Code::config, fmt::format("schedule {} at {} ranks and {} micro-batches: {}", name, spec.pp,
                                          spec.num_micro_batches, problem));
  return row->generate(spec);
}

std::vector<int> peak_in_flight(const Schedule& s) {
  std::vector<int> peaks;
  for (const Lane& lane : s.lanes) {
    int now = 0, peak = 0;
    for (const Step& step : lane) {
      if (step.act == Act::forward || step.act == Act::forward_backward) peak = std::max(peak, ++now);
      if (step.act == Act::backward || step.act == Act::backward_input || step.act == Act::forward_backward) --now;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

Schedule first_micro_batches(Schedule s, int num_micro_batches) {
  // Equal runs of micro-batches per copy: the rest of each run is dropped and the others close up.
  const int run_before = (s.num_micro_batches + s.copies - 1) / s.copies;
  const int run_after = (num_micro_batches + s.copies - 1) / s.copies;
  const auto renumbered = [&](int i) {
    const int copy = i / run_before, place = i % run_before;
    const int now = copy * run_after + place;
    return place < run_after && now < num_micro_batches ? now : -1;
  };
  for (Lane& lane : s.lanes) {
    Lane kept;
    for (Step step : lane) {
      step.micro_batch = renumbered(step.micro_batch);
      if (step.act == Act::forward_backward) {
        step.backward_micro_batch = renumbered(step.backward_micro_batch);
        if (step.micro_batch < 0) {
          step.act = Act::backward;
          step.chunk = step.backward_chunk;
          step.micro_batch = step.backward_micro_batch;
        } else if (step.backward_micro_batch < 0) {
          step.act = Act::forward;
        }
        if (step.act != Act::forward_backward) step.backward_chunk = step.backward_micro_batch = -1;
      }
      if (step.micro_batch >= 0) kept.push_back(step);
    }
    lane = std::move(kept);
  }
  s.num_micro_batches = num_micro_batches;
  s.max_in_flight = peak_in_flight(s);
  return s;
}

}  // namespace mt
