// mt-runs compare: what differs between runs.

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/cli.h"
#include "base/error.h"
#include "mt-runs/commands.h"
#include "registry/index.h"

namespace mt::runs {

std::string loss_text(const std::optional<double>& loss) { return loss ? fmt::format("{:.6f}", *loss) : "-"; }
std::string iteration_text(std::int64_t iteration) { return iteration < 0 ? "-" : std::to_string(iteration); }
std::string value_text(const Json& v) { return v.is_string() ? v.get<std::string>() : json_line(v); }

namespace {

// What the last evaluation of each name found, "evaluation NAME token_ppl" and the like.
std::map<std::string, std::string> findings_of(const RunDetail& d) {
  std::map<std::string, std::string> out;
  for (const auto& e : d.evaluations)
    for (const auto& [key, value] : e.items())
      if (value.is_number() && key != "seconds" && key != "time")
        out[fmt::format("evaluation {} {}", e.value("name", "-"), key)] = value_text(value);
  return out;
}

}  // namespace

// One row a fact, one column a run; options that are equal in all runs are left out unless asked for.
int compare(const Arguments& a, bool json) {
  if (a.words.size() < 2) throw Error(Code::usage, "wanted two or more runs", "", "see mt-runs list");
  const auto index = RunIndex::open_for_reading(a.registry);
  std::vector<RunSummary> runs;
  for (const auto& w : a.words) runs.push_back(index.find(w));
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  const auto add = [&](const std::string& name, const std::function<std::string(const RunSummary&)>& value, bool always) {
    std::vector<std::string> values;
    for (const auto& r : runs) values.push_back(value(r));
    const bool equal = std::all_of(values.begin(), values.end(), [&](const auto& v) { return v == values[0]; });
    if (always || a.all || !equal) rows.emplace_back(name, std::move(values));
  };
  add("run_id", [](const auto& r) { return r.run_id; }, true);
  add("status", [](const auto& r) { return r.status; }, true);
  add("last_iteration", [](const auto& r) { return iteration_text(r.last_iteration); }, true);
  add("last_loss", [](const auto& r) { return loss_text(r.last_loss); }, true);
  std::vector<std::map<std::string, std::string>> findings;
  std::map<std::string, bool> found;
  for (const auto& r : runs) findings.push_back(findings_of(index.detail(r.run_id)));
  for (const auto& f : findings)
    for (const auto& [name, value] : f) found[name] = true;
  for (const auto& [name, unused] : found)
    add(name,
        [&, &key = name](const RunSummary& r) {
          const auto& mine = findings[static_cast<std::size_t>(&r - runs.data())];
          const auto it = mine.find(key);
          return it == mine.end() ? std::string("-") : it->second;
        },
        true);
  add("tool", [](const auto& r) { return r.tool; }, false);
  add("version", [](const auto& r) { return r.version; }, false);
  add("host", [](const auto& r) { return r.host; }, false);
  std::map<std::string, bool> names;
  for (const auto& r : runs)
    for (const auto& [key, value] : r.options.items()) names[key] = true;
  for (const auto& [name, unused] : names)
    add("option " + name,
        [&, &key = name](const auto& r) { return r.options.contains(key) ? value_text(r.options[key]) : std::string("-"); },
        false);
  for (const auto& [name, values] : rows) {
    if (json) cli::object({{"fact", name}, {"values", values}});
    else {
      std::vector<std::string> line{name};
      line.insert(line.end(), values.begin(), values.end());
      cli::row(line);
    }
  }
  return 0;
}

}  // namespace mt::runs
