#pragma once
// What the commands of mt-runs are asked, and the one that has a file of its own.
//
// Tests: tests/cli/mt_runs_test.cc.

#include <cstdint>
#include <string>
#include <vector>

namespace mt::runs {

struct Arguments {
  std::string registry = "mt-runs.db";
  std::vector<std::string> words;
  bool steps = false, all = false;
  std::int64_t skip_steps = 0;
};

// Seconds of each rank's steps in a trace file, by what it did.
//   fails  Error{usage} without one file; as read_trace()
int trace(const Arguments& arguments, bool json);

}  // namespace mt::runs
