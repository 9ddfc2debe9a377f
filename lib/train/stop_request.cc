#include "train/stop_request.h"

#include <csignal>

#include <atomic>

#include "base/error.h"
#include "train/training_run.h"

namespace mt {

namespace {

// A signal handler can reach nothing but static storage.
std::atomic<int> signal_seen{0};
std::atomic<int> users{0};
struct sigaction old_term, old_int, old_usr1, old_hup;

void on_signal(int number) { signal_seen = number; }

}  // namespace

StopRequest::StopRequest() {
  if (users++ > 0) return;
  signal_seen = 0;
  struct sigaction act {};
  act.sa_handler = on_signal;
  act.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &act, &old_term);
  ::sigaction(SIGINT, &act, &old_int);
  ::sigaction(SIGUSR1, &act, &old_usr1);
  // A terminal that goes leaves the run alone, whatever the libraries under it make of it.
  act.sa_handler = SIG_IGN;
  ::sigaction(SIGHUP, &act, &old_hup);
}

StopRequest::~StopRequest() {
  if (--users > 0) return;
  ::sigaction(SIGTERM, &old_term, nullptr);
  ::sigaction(SIGINT, &old_int, nullptr);
  ::sigaction(SIGUSR1, &old_usr1, nullptr);
  ::sigaction(SIGHUP, &old_hup, nullptr);
}

int StopRequest::seen() { return signal_seen; }

int agreed_stop(TrainingRun& run) {
  const double limit_s = run.options.exit_duration_min * 60;
  std::int64_t code = 0;
  if (limit_s > 0 && seconds_since(run.started) > limit_s) code = static_cast<int>(Code::time_limit);
  if (StopRequest::seen() != 0) code = static_cast<int>(Code::signal_saved);
  run.world.all_reduce(run.stream, View(&code, DType::i64, {1}), Reduce::max).wait_host();
  return static_cast<int>(code);
}

}  // namespace mt
