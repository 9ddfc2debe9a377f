#pragma once
// The small parent of a rank: it waits for the rank's end, tells what killed it or that it is silent, and passes the
// exit status on.
//
//   launcher's proxy ── watcher (this parent) ── rank (MPI, training)
// Code: comm/rank_watch.cc. Tests: tests/drills/mt-train.sh.

#include "comm/status_page.h"

namespace mt::comm {

struct WatchOptions {
  double silent_after_s = 600;  // a rank whose beats stand still so long is reported and ended
};

// Fork. Returns in the child, which is the rank and is killed if its watcher dies. The parent never returns: its exit
// status is the rank's, 128+n for one killed by signal n, 8 (comm) for a silent one. Signals TERM, INT and USR1 that
// reach the parent go on to the rank and do not end the parent, since launchers signal the whole process group.
//   needs  one thread, and MPI not started
//   fails  Error{device} when the process table is full
void watch_rank(StatusPage& page, const WatchOptions& options);

// "host rank 3", the prefix of this rank's log lines.
std::string rank_prefix(int rank);

}  // namespace mt::comm
