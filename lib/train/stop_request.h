#pragma once
// The wish to stop: SIGTERM, SIGINT or SIGUSR1 to any rank, agreed on by all at the end of a step, or between
// batches of an evaluation.
//
// Code: train/stop_request.cc. Tests: tests/train/.

namespace mt {

// Catches TERM, INT and USR1 (batch systems send it ahead of a limit) while alive; the old handlers come back after.
// One a process is enough for all its ranks. The process needs a base/signal_thread.h, or the handler may run on a
// thread that computes.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  // Signal number seen since construction, 0 for none.
  static int seen();
};

struct TrainingRun;

// Why to stop now: Code::signal_saved where a rank saw a signal, Code::time_limit where one is past exit_duration_min,
// the latter where both are; 0: go on. Collective over the run's world, the same answer on all ranks.
int agreed_stop(TrainingRun& run);

}  // namespace mt
