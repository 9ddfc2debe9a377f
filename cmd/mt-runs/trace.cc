#include <algorithm>

#include "base/cli.h"
#include "base/error.h"
#include "base/log.h"
#include "mt-runs/commands.h"
#include "registry/trace_summary.h"

namespace mt::runs {

int trace(const Arguments& a, bool json) {
  if (a.words.size() != 1) throw Error(Code::usage, "wanted one FILE", "", "a file that mt-train --trace wrote");
  const auto t = read_trace(a.words[0], a.skip_steps);
  if (!t.whole) log::warn("{} has no end: of a run that goes on, or was killed", a.words[0]);
  if (t.more) log::warn("{} goes on behind its end with what is not read: a trace a file", a.words[0]);
  if (std::all_of(t.rows.begin(), t.rows.end(), [](const TraceRow& r) { return r.steps == 0; }))
    log::warn("{} has no step{}", a.words[0], a.skip_steps > 0 ? fmt::format(" behind the first {}", a.skip_steps) : "");
  if (!json) cli::row({"rank", "steps", "step_s", "compute_s", "exposed_s", "bubble_s", "other_s", "exposed", "bubble", "process"});
  for (const auto& r : t.rows) {
    const double whole = r.step_s > 0 ? r.step_s : 1;
    if (json) {
      cli::object({{"rank", r.rank}, {"name", r.name}, {"steps", r.steps}, {"step_s", r.step_s}, {"compute_s", r.compute_s},
                   {"exposed_s", r.exposed_s}, {"bubble_s", r.bubble_s}, {"other_s", r.other_s()},
                   {"exposed", r.exposed_s / whole}, {"bubble", r.bubble_s / whole}, {"process", t.process}});
      continue;
    }
    std::vector<std::string> line{std::to_string(r.rank), std::to_string(r.steps)};
    for (const double s : {r.step_s, r.compute_s, r.exposed_s, r.bubble_s, r.other_s()}) line.push_back(fmt::format("{:.6f}", s));
    for (const double s : {r.exposed_s, r.bubble_s}) line.push_back(fmt::format("{:.4f}", s / whole));
    line.push_back(t.process);
    cli::row(line);
  }
  return 0;
}

}  // namespace mt::runs
