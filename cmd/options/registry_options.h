#pragma once
// --registry for tools that make something and keep no event file of their own: one call records the run when it is
// done.
//
// Needs the table to outlive the flag's use. Tests: tests/cli/.

#include <string>
#include <utility>
#include <vector>

#include "base/cli.h"
#include "base/error.h"
#include "base/options.h"
#include "registry/event_log.h"
#include "registry/index.h"

namespace mt::options {

struct RegistryFlag {
  std::string file = "mt-runs.db";

  void add(OptionTable& table) {
    table.group("Record");
    OptionRow& row = table.add("registry", file, "FILE", "SQLite index of runs; none: off");
    row.set = [this](const std::vector<std::string>& values) {
      if (values.at(0) == "-") throw Error(Code::usage, "standard output is no index of runs", "", "--registry none");
      file = values.at(0);
    };
  }

  // The start of a run, for record at its end.
  static Json start(const std::string& tool, const OptionTable& table) {
    return run_event(tool, cli::version(), table.resolved());
  }

  // Record a finished run, with `result` in its end event and `events` between. Never fails: a registry warns.
  void record(const Json& start, double seconds, const Json& result, const std::vector<Json>& events = {}) const {
    Json end = end_event("done", seconds);
    for (const auto& [key, value] : result.items()) {
      if (!end.contains(key)) end[key] = value;
    }
    std::vector<Json> all{start};
    all.insert(all.end(), events.begin(), events.end());
    all.push_back(std::move(end));
    RunIndex::open(file).record(all);
  }
};

}  // namespace mt::options
