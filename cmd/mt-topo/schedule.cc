// mt-topo schedule: a pipeline schedule as lanes, as a picture, and what it is worth.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "mt-topo/commands.h"
#include "options/act_costs.h"
#include "schedule/clock.h"
#include "schedule/draw.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"

namespace {

using namespace mt;

struct ScheduleFlags {
  std::string schedule, cost, svg;
  std::optional<int> pp, num_micro_batches, chunks, group_size, receive_ahead;
  std::optional<double> memory_cap;
};

Durations durations_of(const std::string& cost) {
  Durations d;
  options::read_costs(d, cost, "--cost");
  if (d.kept > 1) throw Error(Code::usage, "--cost: kept is a share, at most 1");
  if (d.forward + d.backward_input + d.backward_weight <= 0) throw Error(Code::usage, "--cost: nothing takes time");
  return d;
}

// A file says itself what it is for; a flag that disagrees is a mistake.
void check_agrees(const char* flag, const std::optional<int>& given, int found, const std::string& where) {
  if (given && *given != found)
    throw Error(Code::config, fmt::format("--{} is {}, the file has {}", flag, *given, found), where);
}

Schedule schedule_from_file(const ScheduleFlags& f) {
  const bool standard_input = f.schedule == "-";
  const std::string where = standard_input ? "standard input" : f.schedule;
  const std::string text =
      standard_input ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(f.schedule);
  Schedule s = read_schedule(text, where);
  check_agrees("pp", f.pp, s.pp(), where);
  check_agrees("num-microbatches", f.num_micro_batches, s.num_micro_batches, where);
  check_agrees("chunks", f.chunks, s.chunks(), where);
  if (f.group_size || f.memory_cap)
    throw Error(Code::usage, "--group-size and --memory-cap are for schedules by name", where);
  const auto faults = faults_of(s);
  for (std::size_t i = 1; i < std::min<std::size_t>(faults.size(), 20); ++i) log::warn("{}: {}", where, faults[i]);
  if (!faults.empty())
    throw Error(Code::corrupt, fmt::format("the schedule is not sound, {} fault{}: {}", faults.size(),
                                           faults.size() == 1 ? "" : "s", faults[0]), where);
  return s;
}

Schedule schedule_of(const ScheduleFlags& f, const Durations& durations) {
  if (f.schedule.empty()) throw Error(Code::usage, "no schedule given", "--schedule", "--schedule 1f1b");
  if (f.schedule == "-" || names_schedule_file(f.schedule)) return schedule_from_file(f);
  if (find_schedule(f.schedule) != nullptr && (!f.pp || !f.num_micro_batches))
    throw Error(Code::usage, fmt::format("--schedule {} needs --pp and --num-microbatches", f.schedule));
  for (const auto& n : {f.pp, f.num_micro_batches, f.chunks, f.group_size})
    if (n && (*n < 1 || *n > 65536)) throw Error(Code::usage, fmt::format("{} is not between 1 and 65536", *n));
  if (f.memory_cap && !(*f.memory_cap >= 1 && *f.memory_cap <= 65536))
    throw Error(Code::usage, "a rank holds at least one activation", "--memory-cap");
  const std::int64_t steps = std::int64_t{3} * f.pp.value_or(1) * f.num_micro_batches.value_or(1) * f.chunks.value_or(2);
  if (steps > 20'000'000) throw Error(Code::config, fmt::format("that would be some {} steps", steps));
  return make_schedule(f.schedule, {.pp = f.pp.value_or(1),
                                    .num_micro_batches = f.num_micro_batches.value_or(1),
                                    .chunks = f.chunks.value_or(0),
                                    .group_size = f.group_size.value_or(0),
                                    .memory_cap = f.memory_cap.value_or(0),
                                    .durations = durations});
}

bool recomputes(const Schedule& s) {
  for (const Lane& lane : s.lanes)
    for (const Step& step : lane)
      if (step.act == Act::recompute) return true;
  return false;
}

void print_text(const Schedule& s, const LaneTimes& timeline, const ScheduleReport& report) {
  // Lanes as a file has them; the rest stands behind '#', so what is printed can be read back.
  std::string out = write_schedule(s);
  std::string drawing = draw_text(s, timeline);
  for (std::size_t from = 0; from < drawing.size();) {
    const auto end = drawing.find('\n', from);
    out += "# " + drawing.substr(from, end - from + 1);
    from = end + 1;
  }
  const Json facts = to_json(report);
  for (const auto& [key, value] : facts.items()) out += fmt::format("# {}\t{}\n", key, value.dump());
  std::fwrite(out.data(), 1, out.size(), stdout);
}

// What is written takes the place of a drawing, or of nothing.   fails  Error{config}
void require_no_other_file(const std::string& svg) {
  std::error_code ec;
  if (!fs::is_regular_file(svg, ec) || fs::file_size(svg, ec) == 0) return;
  char head[512] = {};
  std::ifstream(svg, std::ios::binary).read(head, sizeof head - 1);
  const std::string text = head;
  if (text.rfind("<svg", 0) != 0 && !(text.rfind("<?xml", 0) == 0 && text.find("<svg") != std::string::npos))
    throw Error(Code::config, "what is there is no SVG, and one would overwrite it", svg, "name another --svg");
}

int run_schedule(const ScheduleFlags& f, bool json) {
  const Durations durations = durations_of(f.cost);
  if (!f.svg.empty()) require_no_other_file(f.svg);
  if (f.receive_ahead && (*f.receive_ahead < 0 || *f.receive_ahead > 65536))
    throw Error(Code::usage, fmt::format("{} acts", *f.receive_ahead), "--receive-ahead", "0 or more");
  Schedule s = schedule_of(f, durations);
  if (durations.recompute > 0 && !recomputes(s)) {
    std::vector<int> all(s.lanes.size());
    std::iota(all.begin(), all.end(), 0);
    s = insert_recompute(std::move(s), all);
  }
  if (f.receive_ahead) {
    const auto messages = std::any_of(s.lanes.begin(), s.lanes.end(), [](const Lane& lane) {
      return std::any_of(lane.begin(), lane.end(), [](const Step& x) { return is_send(x.act) || is_recv(x.act); });
    });
    if (messages) throw Error(Code::config, "the schedule has its sends and receives", f.schedule, "no --receive-ahead");
    s = overlap_p2p(insert_communication(std::move(s)), *f.receive_ahead);
  }
  const LaneTimes timeline = run_clock(s, durations);
  const ScheduleReport report = report_of(s, durations);
  if (!f.svg.empty()) write_file_atomic(f.svg, draw_svg(s, timeline));
  if (!json) {
    print_text(s, timeline, report);
    return 0;
  }
  Json j{{"schedule", s.name}, {"pp", s.pp()}, {"num_micro_batches", s.num_micro_batches}, {"chunks", s.chunks()}};
  j.update(to_json(report));
  cli::object(j);
  return 0;
}

}  // namespace

namespace mt {

std::function<int()> schedule_command(OptionTable& t, const cli::Shared& shared) {
  auto f = std::make_shared<ScheduleFlags>();
  std::string names;
  for (const auto& row : schedule_table()) names += fmt::format("{}, ", row.name);
  t.group("Schedule");
  t.add("schedule", f->schedule, "NAME", names + "or a file (- is standard input)");
  t.add("pp", f->pp, "N", "pipeline ranks");
  t.alias("pipeline-model-parallel-size", "pp");
  t.add("num-microbatches", f->num_micro_batches, "N", "micro-batches of a step");
  t.add("chunks", f->chunks, "N", "chunks of a rank; default what the schedule has, interleaved 2");
  t.add("group-size", f->group_size, "N", "interleaved: micro-batches that walk the chunks together; default pp");
  t.add("memory-cap", f->memory_cap, "X", "zb-1p, zb-2p, zb-v: most activations of a rank; default pp, zb-2p 2 pp");
  t.add("cost", f->cost, "LIST", "F=1,D=1,W=1,R=0,p2p=0,kept=0.5 and X, which is F+D+W when not given");
  t.add("receive-ahead", f->receive_ahead, "N", "add sends and receives, these posted N acts before their use");
  t.add("svg", f->svg, "FILE", "draw the timeline");
  return [f, &shared] { return run_schedule(*f, shared.json); };
}

}  // namespace mt
