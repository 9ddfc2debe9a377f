#pragma once
// Find checkpoints under a --save directory: the tracker, what is complete, what is left over, what may go.
//
// A --save directory holds `latest_checkpointed_iteration.txt` (the tracker: one whole number), iter_%07d directories,
// and .iter_%07d.tmp directories of saves that did not end.
// Code: ckpt/iterations.cc. Tests: tests/ckpt/iterations_test.cc.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint_format.h"
#include "ckpt/soundness.h"

namespace mt {

// The checkpoint that an argument means, and what was passed over on the way, a sentence each, for the log.
struct Resolved {
  std::filesystem::path dir;
  std::int64_t iteration = 0;
  std::vector<std::string> ignored;
};

// Decide which checkpoint `path` names.
//   path       a --save directory: the tracker decides, or `iteration` when given; or an iter_%07d directory itself
//   gives      where the tracker's checkpoint is there but unfinished or damaged (ckpt/soundness.h), or there is no
//              tracker at all: the newest complete one, with what was ignored in `ignored`
//   fails      Error{config}: another program's, with the command that makes one of ours of it. Error{io}: no such path; the tracker, or a checkpoint that counts before all that are complete, cannot be
//              read (it is never passed over). Error{config}: no checkpoint in it; `iteration` not among them. Error{corrupt}:
//              the tracker is empty, not a whole number, or names a directory that is not there; the asked one is
//              incomplete or of a newer program, or every one that was saved there is. The hint lists what is complete. The same state on disk
//              gives the same words on every rank.
//   cost       reads one tracker and one manifest, stats its files
Resolved resolve(const std::filesystem::path& path, std::optional<std::int64_t> iteration = std::nullopt);

// What stands in a --save directory, ascending by iteration, leftovers included.
struct IterationInfo {
  std::int64_t iteration = 0;
  std::filesystem::path dir;
  bool temporary = false;  // a save that did not end
  bool complete = false;
  bool tracked = false;    // the tracker names it
  std::string problem;     // why it is not complete
  Soundness soundness = Soundness::complete;

  Condition condition() const { return {soundness, problem}; }
};
std::vector<IterationInfo> list_iterations(const std::filesystem::path& root);

// Nothing was ever saved there: no directory, or one without a tracker, any iteration or another program's checkpoint; what a save left that
// was killed before its first commit does not count. For a run that is started again and again by one script.
//   fails  Error{io}, Error{corrupt} as read_tracker
bool holds_no_checkpoint(const std::filesystem::path& root);

// The tracker's number.
//   gives  nothing when there is no tracker
//   fails  Error{corrupt} when its content is not a whole number of 0 or more; Error{io} when it cannot be read
std::optional<std::int64_t> read_tracker(const std::filesystem::path& root);

// The name of something in an iteration's directory that no save writes, or "".
//   fails  Error{io}: cannot be listed
std::string foreign_entry(const std::filesystem::path& dir);

// Which complete checkpoints stay: the newest `keep_newest` (0: all) and those whose iteration is a multiple of
// `keep_interval` (0: none), as Megatron's --save-retain-interval.
struct RetainPolicy {
  int keep_newest = 0;
  std::int64_t keep_interval = 0;
};

// What went, with `dry_run` what would go; what stays, a sentence each; and in `failed` what kind of trouble some of these
// are: io before corrupt, nothing where all stay for something foreign in them.
struct Garbage {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> left;
  std::optional<Code> failed;
  void leave(const std::filesystem::path& dir, const std::string& reason, Code code);
};

// Remove what the policy does not keep. Never the one the tracker names, never the only complete one, nothing
// incomplete, and no directory that holds what no save writes. A directory is renamed to a temporary name first, once it is
// known that it can be emptied, so one half removed is never taken for a checkpoint.
//   fails  Error{io}
Garbage retain(const std::filesystem::path& root, const RetainPolicy& policy, bool dry_run = false);

// What a save with --save-retain-interval does after its commit, by Megatron's rule: the iteration that the tracker
// named before goes, unless it is 0, a multiple of `interval`, newer than `committed`, or a link.
//   interval  0: nothing goes
//   gives     the removed path, or nothing
//   fails     Error{config}: it holds what no save writes, and stays; Error{io}. The committed checkpoint is not touched
std::optional<std::filesystem::path> drop_superseded(const std::filesystem::path& root,
                                                     std::optional<std::int64_t> tracked_before,
                                                     std::int64_t committed, std::int64_t interval);

// Remove what no save will ever finish: temporary and unfinished directories (ckpt/soundness.h) that hold nothing but what
// a save writes (manifest.json, data_*.safetensors, rank_*.json and their temporary names). What is damaged, of a newer
// program or cannot be read stays. Call when nobody is saving there.
Garbage collect_garbage(const std::filesystem::path& root, bool dry_run);

// A directory that checkpoints can be saved into: not an iteration, by its name or content, and not inside one.
//   fails  Error{config}
void require_no_iteration(const std::filesystem::path& dir);

// A --save directory and not something else: a tracker, an iteration or a run's lock is in it.
//   fails  Error{config}: an iteration itself, with its parent as the hint; a directory without any of these
void require_save_directory(const std::filesystem::path& dir);

}  // namespace mt
