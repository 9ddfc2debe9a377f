#include "options/act_costs.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "base/error.h"

namespace mt::options {

namespace {

constexpr double kMostCost = 1e12, kMostEmulatedMs = 3.6e6;

// What an error names.
struct Where {
  const std::string &list, &flag, &hint;
};

double number_of(const std::string& text, const std::string& flag, const std::string& key) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= 0) || value > kMostCost)
    throw Error(Code::usage, fmt::format("{}: {} is '{}'", flag, key, text), "", "a number that is not negative");
  return value;
}

void set_cost(Durations& d, const std::string& item, std::set<std::string>& given, const Where& where) {
  const auto& [list, flag, hint] = where;
  const auto equals = item.find('=');
  const auto key = item.substr(0, equals);
  const struct { const char* key; double* value; } keys[] = {
      {"F", &d.forward},  {"D", &d.backward_input}, {"W", &d.backward_weight},   {"R", &d.recompute},
      {"p2p", &d.p2p},    {"X", &d.forward_backward}, {"kept", &d.kept}};
  for (const auto& k : keys)
    if (key == k.key && equals != std::string::npos) {
      if (!given.insert(key).second) throw Error(Code::usage, fmt::format("{}: {} is given twice", flag, key), list, "each once");
      *k.value = number_of(item.substr(equals + 1), flag, key);
      return;
    }
  throw Error(Code::usage, fmt::format("{}: '{}' is unknown", flag, item), "", hint);
}

}  // namespace

void read_costs(Durations& d, const std::string& list, const std::string& flag, const std::string& hint) {
  std::set<std::string> given;
  for (std::size_t from = 0; from < list.size();) {
    const auto comma = std::min(list.find(',', from), list.size());
    set_cost(d, list.substr(from, comma - from), given, {list, flag, hint});
    from = comma + 1;
  }
}

Durations emulated_durations(const std::string& list) {
  const std::string flag = "--emulate-compute", hint = "milliseconds, as 10 or F=10,D=12,W=8,R=10";
  const bool one = list.find('=') == std::string::npos;
  constexpr double kAbsent = -1;
  Durations d{kAbsent, kAbsent, kAbsent, kAbsent, kAbsent};
  d.kept = kAbsent;
  if (one)
    d.forward = number_of(list, flag, "the time of an act");
  else
    read_costs(d, list, flag, hint);
  if (d.p2p != kAbsent || d.forward_backward != kAbsent || d.kept != kAbsent)
    throw Error(Code::usage, flag + ": a run has acts F, D, W and R; its messages take what they take", list, hint);
  if (!(d.forward > 0)) throw Error(Code::usage, flag + ": F is no time", list, hint);
  for (double* t : {&d.backward_input, &d.backward_weight, &d.recompute})
    if (*t == kAbsent) *t = d.forward;
  for (const double t : {d.forward, d.backward_input, d.backward_weight, d.recompute})
    if (t > kMostEmulatedMs) throw Error(Code::usage, flag + ": an act of more than an hour", list, hint);
  d.p2p = 0;
  d.kept = Durations().kept;
  return d;
}

}  // namespace mt::options
