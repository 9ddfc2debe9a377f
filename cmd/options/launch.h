#pragma once
// Start of the ranks: under an MPI launcher with a watcher each, as threads of this process, or one alone; and how
// their failures reach the person.
//
// Code: cmd/options/launch.cc. Tests: tests/drills/, tests/cli/.

#include <functional>

#include "base/cli.h"
#include "base/options.h"
#include "comm/status_page.h"
#include "comm/world.h"

namespace mt::options {

// What a rank does; it says in `slot` where it is, for its watcher and for errors.
using RankBody = std::function<int(Communicator& world, comm::StatusSlot& slot)>;

struct Launch {
  int local_ranks = 0;  // > 0: threads of this process
  double timeout_min = 10;

  void add_local_ranks(OptionTable& table);
  void add_timeout(OptionTable& table);

  // Ranks there will be, before any of them starts; 0 when only the launcher knows.
  int size() const { return local_ranks != 0 ? local_ranks : comm::started_by_mpi() ? 0 : 1; }

  // Nothing of the launcher's environment contradicts the flags; run() asks it too.
  //   fails  Error{usage}, Error{config} (options/launcher_environment.h)
  void check() const;

  // Run `body` on every rank.
  //   gives  rank 0's exit status. Under MPI a status other than 0 does not return: the whole job ends with it
  //   fails  Error of the first rank that failed, with rank and place; wrong options without
  int run(const RankBody& body) const;
};

// A tool whose processes may be ranks of a job: of several with the same wrong command line one speaks, and an error
// ends the whole job.
void speak_as_one(cli::Tool& tool);

}  // namespace mt::options
