#pragma once
// Signals that interrupt a process are taken by one thread that computes nothing.
//
// Generated matrix kernels (oneDNN's among them) use the stack pointer as an ordinary register now and then, pointing
// into the heap. A signal handled in that moment has its frame written over live blocks there: an abort later, or wrong
// numbers. A thread that computes must therefore never run a handler.
//
// Code: base/signal_thread.cc. Tests: tests/base/signal_thread_test.cc, tests/drills/mt-train.sh.

#include <csignal>
#include <thread>

namespace mt {

// While alive every signal that comes from outside is blocked in the thread that made this, and in all threads started
// after by it or by them; a thread of its own takes those sent to the process, with their handlers, or their default
// actions, as they are at that time. Faults (SEGV, ABRT, …) and PIPE, which belong to a thread, are left alone.
//   needs  made before other threads are started, and after the last fork; ended by the thread that made it
class SignalThread {
 public:
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  sigset_t before_;
  int wake_[2];
  std::thread thread_;
};

}  // namespace mt
