#pragma once
// How ranks agree on what became of a save. Code: engine/save_agreement.cc. Tests: tests/engine/checkpoint_test.cc.

#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "comm/communicator.h"

namespace mt {

// True on every rank of the group if `mine` is true on any. Collective.
bool any_rank(Stream& stream, Communicator& group, bool mine);

// The save that ranks are in.
struct SaveAttempt {
  std::filesystem::path root;
  std::int64_t iteration = 0;
  Stream& stream;
  Communicator& world;
};

// Run one part of a save on this rank. Collective.
//   fails  if it failed anywhere, on every rank: with its own error where it failed, elsewhere with the first failing
//          rank's, so that whoever is heard says why; the unfinished save is removed
void together(const SaveAttempt& save, const std::function<void()>& act);

// The end of a save that failed on some rank, called by all once no rank writes any more: removes it and throws as
// together(). Collective.   needs  `mine` on one rank or more
[[noreturn]] void give_up_together(const SaveAttempt& save, const std::optional<Error>& mine);

// What an act threw, as an Error: memory and std::filesystem too, so that other ranks need not wait for this one.
std::optional<Error> error_of(const std::function<void()>& act, const std::filesystem::path& where);

}  // namespace mt
