#pragma once
// Whether a directory is a checkpoint that can be taken, and if not, why. Unfinished, damaged and unreadable are three
// things: the first may be removed, the second passed over, and of the third nobody knows what it is.
//
// Code: ckpt/soundness.cc. Tests: tests/ckpt/soundness_test.cc.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

namespace mt {

enum class Soundness : std::uint8_t {
  complete,
  unfinished,  // by what is there: no manifest, a data file missing or of another size
  damaged,     // the manifest is not what was written, or is that of another iteration
  newer,       // of a format_version that this program does not know
  unreadable   // the file system would not say: no permission, a failing disk, a link to what is not there
};

struct Condition {
  Soundness is = Soundness::complete;
  std::string problem;  // a sentence; "" when complete

  bool complete() const { return is == Soundness::complete; }
  // It may be passed over for an older checkpoint. What cannot be read or understood may not: it can be the one that
  // was wanted, and a run that starts from an older one would replace it later.
  bool can_be_passed_over() const { return is == Soundness::unfinished || is == Soundness::damaged; }
  // The error for who wanted this one: Error{io} for unreadable, else Error{corrupt}.
  Error error(const std::filesystem::path& dir, const std::string& hint = "") const;
};

// What `dir` is: manifest sound and of the iteration that the directory's name says, every data file there with its size.
// Hashes are verify's work.   cost  reads one manifest, stats its files
Condition condition_of(const std::filesystem::path& dir);

// "iter_0000020" -> 20; nothing for any other name.
std::optional<std::int64_t> iteration_of(const std::string& name);

// Something is there.   fails  Error{io}: that could not be found out, or it is a link to what is not there
bool is_present(const std::filesystem::path& path);
// The same for questions that a failure answers with no. is_folder follows links.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

}  // namespace mt
