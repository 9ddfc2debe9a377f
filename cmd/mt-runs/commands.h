#pragma once
// What the commands of mt-runs are asked, and those that have a file of their own.
//
// Tests: tests/cli/mt_runs_test.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mt::runs {

struct Arguments {
  std::string registry = "mt-runs.db";
  std::vector<std::string> words;
  bool steps = false, all = false;
  std::int64_t skip_steps = 0;
};

// As they are printed, "-" for what a run does not have.
std::string loss_text(const std::optional<double>& loss);
std::string iteration_text(std::int64_t iteration);
std::string value_text(const Json& value);

// One row a fact, one column a run.   fails  Error{usage} for fewer than two; as RunIndex::find
int compare(const Arguments& arguments, bool json);

// Seconds of each rank's steps in a trace file, by what it did.
//   fails  Error{usage} without one file; as read_trace()
int trace(const Arguments& arguments, bool json);

}  // namespace mt::runs
