#include "train/pipeline_schedule.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "schedule/clock.h"
#include "schedule/message_buffers.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"

namespace mt {

namespace {

Schedule schedule_of(const TrainingOptions& o) {
  return names_schedule_file(o.schedule) ? read_schedule(read_file(o.schedule), o.schedule)
                             : make_schedule(o.schedule, schedule_spec_of(o));
}

// As many micro-batches as show every rank's steady state.
Schedule sample_of(const TrainingOptions& o) {
  if (names_schedule_file(o.schedule)) return schedule_of(o);
  ScheduleSpec spec = schedule_spec_of(o);
  const int all = spec.num_micro_batches, group = spec.group_size > 0 ? spec.group_size : spec.pp;
  const int enough = 4 * std::max(spec.pp, group);
  if (all > enough + group) spec.num_micro_batches = enough + all % group;
  Schedule s = make_schedule(o.schedule, spec);
  const bool holds_all = std::any_of(s.max_in_flight.begin(), s.max_in_flight.end(),
                                     [&](int n) { return n >= spec.num_micro_batches * s.chunks(); });
  return holds_all ? schedule_of(o) : s;
}

// Of few micro-batches, where the name takes so few: its chunks and stages are those of the whole, and a search of it is
// short.
Schedule small_schedule_of(const TrainingOptions& o) {
  ScheduleSpec spec = schedule_spec_of(o);
  const ScheduleRow* row = find_schedule(o.schedule);
  const int all = spec.num_micro_batches;
  for (const int few : {1, 2 * std::max(spec.pp, spec.group_size), all}) {
    spec.num_micro_batches = std::min(all, few);
    if (row == nullptr || problem_of(*row, spec).empty()) break;
  }
  return make_schedule(o.schedule, spec);
}

bool is_v(const Schedule& s) {
  const int last = s.pp() - 1;
  return s.pp() > 1 && s.chunks() == 2 && s.stage_of[static_cast<std::size_t>(last)][1] == s.pp();
}

// A step of such an act; a file's schedule may have its messages and recompute acts already.
template <class Is>
bool has(const Schedule& s, const Is& is) {
  return std::any_of(s.lanes.begin(), s.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.begin(), lane.end(), [&](const Step& step) { return is(step.act); });
  });
}

// A file can hold anything that is sound; a generator makes what its spec says.
void check_file(const TrainingOptions& o, const Schedule& s) {
  const auto faults = faults_of(s);
  if (!faults.empty())
    throw Error(Code::corrupt, fmt::format("the schedule is not sound: {}", faults[0]), o.schedule,
                "mt-topo schedule --schedule FILE names every fault");
  const struct { const char* what; int has, wanted; } counts[] = {
      {"pipeline ranks", s.pp(), o.parallel.pp},
      {"micro-batches", s.num_micro_batches, o.batch.num_micro_batches(o.parallel)}};
  for (const auto& c : counts)
    if (c.has != c.wanted)
      throw Error(Code::config, fmt::format("the schedule has {} {}, the run {}", c.has, c.what, c.wanted), o.schedule,
                  "a schedule of this run's size");
  for (const Lane& lane : s.lanes)
    for (const Step& step : lane)
      if (step.act == Act::swap_in || step.act == Act::swap_out || step.act == Act::collective)
        throw Error(Code::config, fmt::format("the schedule has {} steps, which training does not run", act_name(step.act)),
                    o.schedule, "leave them out");
  for (const Lane& lane : s.lanes)
    for (const Step& step : lane)
      if (step.tower != 0 || step.first_segment != 0 || step.last_segment >= 0)
        throw Error(Code::config, fmt::format("the schedule has a {} of {}, and training runs whole chunks of one tower",
                                              act_name(step.act), step.tower != 0 ? "another tower" : "some segments"),
                    o.schedule, "no tower= and no segments=");
}

}  // namespace

ScheduleSpec schedule_spec_of(const TrainingOptions& o) {
  return {.pp = o.parallel.pp,
          .num_micro_batches = o.batch.num_micro_batches(o.parallel),
          .chunks = o.parallel.vpp > 1 ? o.parallel.vpp : 0,
          .group_size = o.micro_batch_group.value_or(0)};
}

void choose_schedule(TrainingOptions& o) {
  auto& p = o.parallel;
  if (o.schedule.empty()) o.schedule = p.vpp > 1 ? "interleaved" : "1f1b";
  if (names_schedule_file(o.schedule)) {
    const Schedule s = schedule_of(o);
    if (p.vpp == 1) p.vpp = s.chunks();
    p.v_shape = is_v(s);
    return;
  }
  const ScheduleRow* row = find_schedule(o.schedule);
  if (row == nullptr) make_schedule(o.schedule, {});  // says so, and what is near
  p.v_shape = row->v_shape && p.pp > 1;
  if (p.v_shape && p.vpp == 1) p.vpp = 2;
}

void check_schedule(const TrainingOptions& o) {
  const char* hint = "mt-topo schedule draws schedules; mt-train runs all but dualpipe";
  const auto refuse = [&](const std::string& problem) {
    throw Error(Code::config, fmt::format("--pipeline-schedule {}: {}", o.schedule, problem), "", hint);
  };
  if (const ScheduleRow* row = find_schedule(o.schedule); row != nullptr && !names_schedule_file(o.schedule)) {
    if (row->copies != 1) refuse("needs two copies of the weights");
    const ScheduleSpec spec = schedule_spec_of(o);
    if (row->max_chunks == 1 && spec.chunks > 1) hint = "no virtual stages, or --pipeline-schedule interleaved";
    if (const std::string problem = problem_of(*row, spec); !problem.empty()) refuse(problem);
  }
  const Schedule s = names_schedule_file(o.schedule) ? schedule_of(o) : small_schedule_of(o);
  if (names_schedule_file(o.schedule)) check_file(o, s);
  if (s.copies != 1) refuse("needs two copies of the weights");
  if (has(s, [](Act a) { return a == Act::backward_input; })) {
    const std::string later = "its weight gradients come later than its input gradients, and ";
    if (o.host_layers > 0) {
      hint = "--pipeline-schedule 1f1b or interleaved, or no --cpu-offloading-num-layers";
      refuse(later + "cpu-offloading-num-layers brings saved tensors back once");
    }
    if (o.graph_warmup > 0) {
      hint = "--pipeline-schedule 1f1b or interleaved, or --cuda-graph-impl none";
      refuse(later + "cuda-graph-impl local makes graphs of whole backwards");
    }
  }
  if (s.chunks() != o.parallel.vpp)
    throw Error(Code::config, fmt::format("--pipeline-schedule {} has {} chunks a rank, the layout {}", o.schedule,
                                          s.chunks(), o.parallel.vpp),
                "", fmt::format("--num-virtual-stages-per-pipeline-rank {}", s.chunks()));
  for (int r = 0; r < s.pp(); ++r)
    for (int c = 0; c < s.chunks(); ++c)
      if (const int stage = s.stage_of[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
          stage != o.parallel.stage(r, c))
        refuse(fmt::format("chunk {} of rank {} is stage {}, the layout has stage {} there", c, r, stage,
                           o.parallel.stage(r, c)));
}

namespace {

Schedule with_messages(Schedule s) {
  s = split_merged(std::move(s));
  return has(s, is_send) ? s : insert_communication(std::move(s));
}

// Recompute acts stand behind the receive of the gradient: it arrives meanwhile.
Schedule with_recompute(const TrainingOptions& o, Schedule s, const std::vector<int>& ranks) {
  if (!o.parallel.recompute.on() || has(s, [](Act a) { return a == Act::recompute; })) return s;
  return insert_recompute(std::move(s), ranks);
}

}  // namespace

RankWork work_of(const TrainingOptions& o, int pp_rank) {
  Schedule s = with_messages(schedule_of(o));
  const int buffers = gradient_buffers(s);
  s = with_recompute(o, std::move(s), {pp_rank});
  return {std::move(s.lanes[static_cast<std::size_t>(pp_rank)]), buffers};
}

namespace {

std::vector<int> all_ranks(const TrainingOptions& o) {
  std::vector<int> all(static_cast<std::size_t>(o.parallel.pp));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

double predicted_step(const TrainingOptions& o, const Durations& durations) {
  return report_of(with_recompute(o, with_messages(schedule_of(o)), all_ranks(o)), durations).finish;
}

std::vector<Lane> sample_lanes(const TrainingOptions& o) {
  return with_recompute(o, with_messages(sample_of(o)), all_ranks(o)).lanes;
}

}  // namespace mt
