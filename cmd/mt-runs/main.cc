// mt-runs: look at the registry of runs, and rebuild it from event files.

#include <algorithm>
#include <memory>

#include "base/cli.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "mt-runs/commands.h"
#include "registry/event_log.h"
#include "registry/index.h"

namespace mt {
namespace {

using Made = std::function<int()>;
using runs::Arguments, runs::iteration_text, runs::loss_text, runs::value_text;

Json summary_json(const RunSummary& r) {
  Json j = {{"run_id", r.run_id}, {"tool", r.tool},     {"version", r.version}, {"host", r.host},
            {"started", r.started}, {"ended", r.ended}, {"status", r.status},   {"starts", r.starts},
            {"steps", r.steps}};
  j["last_iteration"] = r.last_iteration >= 0 ? Json(r.last_iteration) : Json();
  j["last_loss"] = r.last_loss ? Json(*r.last_loss) : Json();
  j["checkpoints"] = r.checkpoints;
  j["evaluations"] = r.evaluations;
  j["source"] = r.source;
  return j;
}

int list(const Arguments& a, bool json) {
  const auto all = RunIndex::open_for_reading(a.registry).runs();
  if (!json)
    cli::row({"run_id", "started", "tool", "status", "starts", "last_iteration", "last_loss", "checkpoints",
              "evaluations", "host", "source"});
  for (const auto& r : all) {
    if (json) cli::object(summary_json(r));
    else
      cli::row({r.run_id, r.started, r.tool, r.status, std::to_string(r.starts),
                iteration_text(r.last_iteration), loss_text(r.last_loss),
                std::to_string(r.checkpoints), std::to_string(r.evaluations), r.host, r.source});
  }
  return 0;
}

int show(const Arguments& a, bool json) {
  if (a.words.size() != 1) throw Error(Code::usage, "wanted one RUN", "", "a run_id, the beginning of one, or 'last'");
  const auto d = RunIndex::open_for_reading(a.registry).detail(a.words[0]);
  if (json) {
    auto j = summary_json(d.run);
    j["options"] = d.run.options;
    j["step_events"] = a.steps ? Json(d.steps) : Json::array();
    j["checkpoint_events"] = d.checkpoints;
    j["evaluation_events"] = d.evaluations;
    j["plan_events"] = d.plans;
    cli::object(j);
    return 0;
  }
  const auto head = summary_json(d.run);
  for (const auto& [key, value] : head.items()) cli::row({key, value.is_null() ? "-" : value_text(value)});
  for (const auto& [key, value] : d.run.options.items()) cli::row({"option", key, value_text(value)});
  for (const auto& j : d.checkpoints) cli::row({"checkpoint", json_line(j)});
  for (const auto& j : d.evaluations) cli::row({"evaluation", json_line(j)});
  for (const auto& j : d.plans) cli::row({"plan", json_line(j)});
  if (a.steps)
    for (const auto& j : d.steps) cli::row({"step", json_line(j)});
  return 0;
}

// Files given, and every record (run.jsonl, run-ID.jsonl) below directories given.
std::vector<fs::path> event_files(const std::vector<std::string>& words) {
  std::vector<fs::path> files;
  for (const auto& w : words) {
    std::error_code ec;
    if (!fs::exists(w, ec)) throw Error(Code::io, "no such file or directory", w);
    if (!fs::is_directory(w, ec)) {
      if (!fs::is_regular_file(w, ec)) throw Error(Code::data, "an event file is a regular file, this is none", w);
      files.emplace_back(w);
      continue;
    }
    for (fs::recursive_directory_iterator it(w, fs::directory_options::skip_permission_denied, ec), end; it != end;
         it.increment(ec))
      if (is_event_log_name(it->path()) && it->is_regular_file(ec)) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int rebuild(const Arguments& a, bool json) {
  const auto files = event_files(a.words.empty() ? std::vector<std::string>{"."} : a.words);
  if (files.empty()) throw Error(Code::data, "no run.jsonl found", a.words.empty() ? "." : a.words[0]);
  if (a.registry.empty() || a.registry == "none") throw Error(Code::usage, "a registry is needed", "--registry");
  auto index = RunIndex::open_or_fail(a.registry);
  bool all = true;
  if (!json) cli::row({"file", "result", "skipped_lines"});
  for (const auto& f : files) {
    const bool ok = index.rebuild(f);
    all &= ok;
    const auto result = ok ? "indexed" : "failed";
    if (json) cli::object({{"file", f.string()}, {"result", result}, {"skipped_lines", index.skipped_lines()}});
    else cli::row({f.string(), result, std::to_string(index.skipped_lines())});
  }
  if (!all) throw Error(Code::io, "some files could not be indexed", a.registry);
  return 0;
}

cli::Command command(const std::string& name, const std::string& summary, int (*body)(const Arguments&, bool),
                     const std::function<void(OptionTable&, Arguments&)>& more) {
  return {name, summary, [=](OptionTable& table, const cli::Shared& shared) -> Made {
            auto a = std::make_shared<Arguments>();
            table.add("registry", a->registry, "FILE", "the registry, an SQLite file");
            more(table, *a);
            return [a, body, &shared] { return body(*a, shared.json); };
          }};
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  using mt::OptionTable, mt::runs::Arguments;
  mt::cli::Tool tool;
  tool.name = "mt-runs";
  tool.summary = "Look at the registry of runs, and rebuild it from event files.";
  tool.backends = "none needed";
  tool.commands = {
      mt::command("list", "one line a run, oldest first", mt::list, [](OptionTable&, Arguments&) {}),
      mt::command("show", "one run: options, checkpoints, evaluations, steps", mt::show,
                  [](OptionTable& t, Arguments& a) {
                    t.positional(a.words, "RUN", "a run_id, the beginning of one, or 'last'");
                    t.add("steps", a.steps, "", "every step's event too");
                  }),
      mt::command("compare", "what differs between runs", mt::runs::compare,
                  [](OptionTable& t, Arguments& a) {
                    t.positional(a.words, "RUN...", "two or more runs");
                    t.add("all", a.all, "", "options that are equal too");
                  }),
      mt::command("trace", "what a trace says of each rank: compute, exposed communication, bubble", mt::runs::trace,
                  [](OptionTable& t, Arguments& a) {
                    t.positional(a.words, "FILE", "a file that mt-train --trace wrote");
                    t.add("skip-steps", a.skip_steps, "N", "leave out so many first steps", "steps").at_least(0);
                  }),
      mt::command("index", "read event files into the registry", mt::rebuild, [](OptionTable& t, Arguments& a) {
        t.positional(a.words, "FILE...", "event files, or directories that hold run.jsonl and run-ID.jsonl somewhere below");
      })};
  return mt::cli::run(tool, argc, argv);
}
