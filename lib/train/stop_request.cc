#include "train/stop_request.h"

#include <csignal>

#include <atomic>

namespace mt {

namespace {

// A signal handler can reach nothing but static storage.
std::atomic<int> signal_seen{0};
std::atomic<int> users{0};
struct sigaction old_term, old_int, old_usr1;

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
}

StopRequest::~StopRequest() {
  if (--users > 0) return;
  ::sigaction(SIGTERM, &old_term, nullptr);
  ::sigaction(SIGINT, &old_int, nullptr);
  ::sigaction(SIGUSR1, &old_usr1, nullptr);
}

int StopRequest::seen() { return signal_seen; }

}  // namespace mt
