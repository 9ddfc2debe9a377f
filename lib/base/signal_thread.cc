#include "base/signal_thread.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"

namespace mt {

namespace {

sigset_t from_outside() {
  sigset_t set;
  sigfillset(&set);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE, SIGXFSZ}) sigdelset(&set, number);
  return set;
}

}  // namespace

SignalThread::SignalThread() {
  if (::pipe2(wake_, O_CLOEXEC) != 0) throw Error(Code::device, "cannot make a pipe: " + errno_text(errno));
  const sigset_t blocked = from_outside();
  // The new thread has the mask of now: no moment without a thread that takes signals.
  thread_ = std::thread([end = wake_[0]] {
    ::prctl(PR_SET_NAME, "mt-signals");
    char byte;
    while (::read(end, &byte, 1) < 0 && errno == EINTR) {
    }
  });
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

SignalThread::~SignalThread() {
  ::close(wake_[1]);
  thread_.join();
  ::close(wake_[0]);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace mt
