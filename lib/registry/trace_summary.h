#pragma once
// What a trace of a run says of each rank: how long it computed, waited for messages, stood in bubbles.
//
// Read are traces as mt-train writes them (train/trace_file.h): an event a line, begun by kTraceBegins, whose end may be
// cut off. Of spans those inside a step count:
//   compute  acts of the pipeline lane, less what they stood still in
//   exposed  stood still in an operation of a group: communication that nothing hid
//   bubble   stood still for a tensor of a neighbour stage
// Code: registry/trace_summary.cc. Tests: tests/registry/trace_summary_test.cc, tests/train/timeline_test.cc.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

inline constexpr std::string_view kTraceBegins = "[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",";

struct TraceRow {
  int rank = 0;
  std::string name;  // "rank 0: tp 0, dp 0, pp 0"
  std::int64_t steps = 0;
  double step_s = 0, compute_s = 0, exposed_s = 0, bubble_s = 0;
  // Optimizer, batches, and what nothing above names.
  double other_s() const { return step_s - compute_s - exposed_s - bubble_s; }
};

struct TraceSummary {
  std::string process;    // "mt-train", or what else it says it was
  bool whole = false;     // it has its end
  bool more = false;      // and something behind it, which is not read
  std::vector<TraceRow> rows;  // by rank
};

// needs  skip_steps >= 0: so many first steps of every rank are left out
// fails  Error{io}; Error{corrupt} where the file is no trace, or a line before its last is no event
// cost   some microseconds a span, and 24 bytes of memory
TraceSummary read_trace(const std::filesystem::path& file, std::int64_t skip_steps = 0);

}  // namespace mt
