#pragma once
// The SQLite index over event files: which runs there were, with what options, how far they came.
//
// run.jsonl is the record; the index only makes it searchable and can be rebuilt from it at any time. It keeps, for each
// file, how many bytes it has taken in, so `follow` adds just the new lines and a registry that was locked for a while
// catches up by itself.
//
// A run is never stopped by its registry. Every call here returns false after a warning when the database is locked,
// full, read-only, damaged or of a newer version; `open_for_reading` alone, for tools that only look, throws.
// WAL is used on local disks only (its shared memory does not work over a network); elsewhere the rollback journal.
// Code: registry/index.cc, registry/database.cc. Tests: tests/registry/index_test.cc. Tables: man/mt-registry.5.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mt {

class Database;

// One line of a list of runs.
struct RunSummary {
  std::string run_id, tool, version, host, started, ended, status, source;
  std::int64_t starts = 0, steps = 0, last_iteration = -1, checkpoints = 0, evaluations = 0;
  std::optional<double> last_loss;
  Json options = Json::object();  // of the last start
};

struct RunDetail {
  RunSummary run;
  std::vector<Json> steps, checkpoints, evaluations, plans;  // the event lines, ascending by iteration
};

class RunIndex {
 public:
  // Open or create the registry for recording.
  //   file     "none" or "": recording is off and every call does nothing
  //   gives    an index; if it could not be opened now it has warned, and every later call tries again
  static RunIndex open(const std::string& file);

  // The same for who has nothing else to do: a registry that cannot be opened is an error.
  //   fails  Error{io}; Error{corrupt} not a registry, or of a newer version
  static RunIndex open_or_fail(const std::filesystem::path& file);

  // Open an existing registry to look at it; nothing is written, and nothing need be writable.
  //   fails  Error{io} missing or unreadable; Error{corrupt} not a registry, or of a newer version
  static RunIndex open_for_reading(const std::filesystem::path& file);

  RunIndex(RunIndex&&) noexcept;
  RunIndex& operator=(RunIndex&&) noexcept;
  ~RunIndex();

  bool on() const { return !file_.empty(); }

  // Take in what was appended to a run.jsonl since the last call, in one transaction.
  //   wait_ms  how long to wait for other writers; short inside a training loop, long at its start and end
  //   gives    false after a warning when it could not; the next call catches up. A pipe or device is passed over
  //   cost     reads the new bytes of the file, one fsync of the database
  bool follow(const std::filesystem::path& event_log, int wait_ms);

  // Record a tool's run that keeps no file of its own: its event objects (`run` first, `end` last).
  bool record(const std::vector<Json>& events, int wait_ms = 10000);

  // Forget what was taken from a file and read it again from the start.
  bool rebuild(const std::filesystem::path& event_log);

  // Lines that were cut or not ours in the last follow or rebuild.
  std::uint64_t skipped_lines() const { return skipped_lines_; }

  // All runs by start time.   fails  Error{io}, Error{corrupt}
  std::vector<RunSummary> runs() const;
  // The run an argument means: an id, a unique beginning of one, or "last".
  //   fails  Error{config}: none, or several (which are named)
  RunSummary find(const std::string& argument) const;
  RunDetail detail(const std::string& run_id) const;

 private:
  explicit RunIndex(std::filesystem::path file);
  bool guarded(int wait_ms, const std::function<void(Database&)>& body);
  Database& looking() const;

  std::filesystem::path file_;  // empty: off
  std::unique_ptr<Database> database_;
  std::uint64_t skipped_lines_ = 0;
  bool warned_ = false;
};

}  // namespace mt
