#include "train/timers.h"

#include <algorithm>

#include "base/json.h"

namespace mt {

namespace {

using Totals = std::map<std::string, Timeline::Total>;

double seconds_of(const Totals& t, const std::string& name) {
  const auto it = t.find(name);
  return it == t.end() ? 0 : it->second.seconds;
}

bool is_shown(Timeline::Kind kind, int level) {
  if (kind == Timeline::Kind::step) return false;
  return kind == Timeline::Kind::phase ? level >= 1 : level >= 2;
}

}  // namespace

std::string totals_text(const Totals& totals) {
  Json j = Json::object();
  for (const auto& [name, total] : totals) j[name] = {static_cast<int>(total.kind), total.seconds};
  return json_line(j);
}

Totals totals_from_text(const std::string& text) {
  Totals totals;
  const Json j = Json::parse(text);
  for (const auto& [name, pair] : j.items())
    totals[name] = {static_cast<Timeline::Kind>(pair[0].get<int>()), pair[1].get<double>()};
  return totals;
}

std::string timers_text(const std::vector<Totals>& ranks, const TimerOptions& o, std::int64_t steps) {
  std::map<std::string, Timeline::Kind> names;
  for (const auto& rank : ranks)
    for (const auto& [name, total] : rank)
      if (is_shown(total.kind, o.log_level)) names.emplace(name, total.kind);
  if (names.empty() || steps < 1) return "";
  const double to_ms = 1e3 / static_cast<double>(steps);
  const bool all = o.log_option == "all", max_alone = o.log_option == "max";
  std::string out = all ? "times across ranks (ms):" : max_alone ? "max time across ranks (ms):" : "(min, max) time across ranks (ms):";
  for (const auto& [name, kind] : names) {
    std::vector<double> ms;
    for (const auto& rank : ranks) ms.push_back(seconds_of(rank, name) * to_ms);
    const auto [least, most] = std::minmax_element(ms.begin(), ms.end());
    if (*most == 0) continue;
    if (all) {
      out += fmt::format("\n  {}:", name);
      for (std::size_t r = 0; r < ms.size(); ++r) out += fmt::format("\n     rank {:2d}: {:.2f}", r, ms[r]);
      continue;
    }
    const std::string label = name + " " + std::string(name.size() < 47 ? 47 - name.size() : 0, '.');
    out += max_alone ? fmt::format("\n    {}: {:.2f}", label, *most) : fmt::format("\n    {}: ({:.2f}, {:.2f})", label, *least, *most);
  }
  return out;
}

std::string straggler_text(const std::vector<Totals>& ranks, std::int64_t steps) {
  std::vector<double> ms;
  for (const auto& rank : ranks)
    ms.push_back((seconds_of(rank, "forward-backward") - seconds_of(rank, "exposed in forward-backward")) * 1e3 /
                 static_cast<double>(std::max<std::int64_t>(1, steps)));
  const auto [least, most] = std::minmax_element(ms.begin(), ms.end());
  return fmt::format("straggler: compute (ms) min {:.2f} on rank {}, max {:.2f} on rank {} ({:.2f} times)", *least,
                     least - ms.begin(), *most, most - ms.begin(), *least > 0 ? *most / *least : 0.0);
}

}  // namespace mt
