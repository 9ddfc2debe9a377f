#pragma once
// The wish to stop: SIGTERM, SIGINT or SIGUSR1 to any rank, agreed on by all at the end of a step.
//
// Code: train/stop_request.cc. Tests: tests/train/.

namespace mt {

// Catches TERM, INT and USR1 (batch systems send it ahead of a limit) while alive; the old handlers come back after. One a process is enough for all its ranks.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  // Signal number seen since construction, 0 for none.
  static int seen();
};

}  // namespace mt
