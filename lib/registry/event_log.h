#pragma once
// The record of a run: run.jsonl, one JSON object a line, each with an `event`.
//
//   run          once per start: run_id, tool, version, host, start time, every resolved option
//   step         iteration, consumed_samples, loss, grad_norm, learning_rate, step_s, tokens_per_s, tflops, mfu
//   checkpoint   iteration, path, bytes, seconds; with a fast directory once more, when it is durable:
//                path and durable_s, which join the earlier line
//   evaluation   iteration, name and its numbers
//   plan         what a planner chose
//   end          status, seconds
//
// The file is appended to, also by a resumed run, so an iteration may stand in it twice: a later line replaces an
// earlier one. A line is one write(2) to a file opened for appending, so a killed writer leaves at most one cut line, at
// the end; the next writer puts a newline behind it and readers count it as skipped.
// Code: registry/event_log.cc. Tests: tests/registry/event_log_test.cc. Format: man/mt-registry.5.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace mt {

// True for the words above.
bool is_event(std::string_view name);

// "2026-01-31T12:34:56.789Z"
std::string utc_time_text();
// Name of this machine.
std::string host_name();
// Unique and sortable by start: date, time and 48 random bits, "20260131-123456-0123456789ab".
std::string new_run_id();

// The `run` event of a tool, with a new run_id, this host and now; and the `end` event that closes it.
//   options  every resolved one, OptionTable::resolved()
Json run_event(const std::string& tool, const std::string& version, const Json& options);
Json end_event(const std::string& status, double seconds);

// Append lines to a run's record.
class EventLog {
 public:
  // Open or create `path`.
  //   gives  a log whose run_id() is the file's when it already has a `run` line (a resumed run stays one run), else new
  //   fails  Error{io}; Error{config} for a file that has lines and whose first is no event: it stays as it is
  explicit EventLog(const std::filesystem::path& path);
  // The record of a run that continues none. What another run wrote at `path` is kept: the file is renamed to
  // event_log_beside(path, its run id), and `moved` says where to; if a living run still writes there, it is the new
  // record that takes such a name.
  //   fails  as above
  static EventLog start_new(const std::filesystem::path& path, std::filesystem::path* moved = nullptr);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  ~EventLog();

  const std::filesystem::path& path() const { return path_; }
  const std::string& run_id() const { return run_id_; }
  // True when the file had a `run` line before.
  bool resumed() const { return resumed_; }

  // Append one event. `time` is added when absent; a `run` event gets run_id and host when absent.
  //   needs  an object whose `event` is one of the above (anything else is a bug); numbers that are not finite are
  //          written as null
  //   fails  Error{io}, full disk included; the file then ends as it did, or with one cut line
  //   cost   one write; not fsynced
  void append(Json event);

  // Make everything appended durable.   fails  Error{io}
  void sync();

 private:
  EventLog(const std::filesystem::path& path, const std::string& new_id);
  std::filesystem::path path_;
  std::string run_id_;
  bool resumed_ = false;
  int fd_ = -1;
};

// A file of somebody else's is not appended to.
//   fails  Error{config} when `path` has lines and the first is no event, or is a directory; never for what is absent,
//          empty or no file
void require_event_log(const std::filesystem::path& path);

// "run.jsonl" and "20260131-…" to "run-20260131-….jsonl".
std::filesystem::path event_log_beside(const std::filesystem::path& path, const std::string& run_id);
// True for run.jsonl and the names event_log_beside gives it.
bool is_event_log_name(const std::filesystem::path& path);

// What a record says once later lines have replaced earlier ones.
struct RunRecord {
  std::string run_id;
  std::vector<Json> runs;             // every start, in order; the last has the current options
  std::map<std::int64_t, Json> steps;
  std::map<std::int64_t, Json> checkpoints;
  std::map<std::pair<std::int64_t, std::string>, Json> evaluations;  // by (iteration, name)
  std::vector<Json> plans;
  std::vector<Json> ends;
  bool ended = false;                 // the last start has its end; false: running, or killed
  std::uint64_t skipped_lines = 0;    // cut or not ours; never silent: callers print the count
  std::uint64_t bytes = 0;            // consumed: up to the last newline

  // Take one line in. Unknown events are kept out and counted as skipped.
  void add(const std::string& line);
};

// Read a record up to its last complete line.
//   fails  Error{io}
RunRecord read_event_log(const std::filesystem::path& path);

// The id in the first `run` line of a record; "" without one or without a file.   cost  reads up to that line
std::string first_run_id(const std::filesystem::path& path);

// The complete lines from byte `offset` on; `end` becomes the offset behind the last of them.
std::vector<std::string> read_event_lines(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t& end);

}  // namespace mt
