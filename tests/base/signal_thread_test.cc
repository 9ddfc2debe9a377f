#include "base/signal_thread.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace mt {
namespace {

std::atomic<pid_t> handled_by{0};

pid_t own_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

bool blocked_here(int number) {
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, number) == 1;
}

class Handler {
 public:
  explicit Handler(int number) : number_(number) {
    struct sigaction act {};
    act.sa_handler = [](int) { handled_by = own_id(); };
    act.sa_flags = SA_RESTART;
    ::sigaction(number, &act, &old_);
    handled_by = 0;
  }
  ~Handler() { ::sigaction(number_, &old_, nullptr); }

 private:
  int number_;
  struct sigaction old_;
};

TEST(SignalThread, TakesWhatIsSentToTheProcessAndComputingThreadsTakeNothing) {
  const Handler handler(SIGUSR1);
  const SignalThread signals;
  EXPECT_TRUE(blocked_here(SIGUSR1));
  EXPECT_TRUE(blocked_here(SIGTERM));
  EXPECT_TRUE(blocked_here(SIGALRM));
  EXPECT_FALSE(blocked_here(SIGSEGV));
  pid_t worker = 0;
  for (int i = 0; i < 20; ++i) {
    handled_by = 0;
    std::thread([&] {
      worker = own_id();
      ::kill(::getpid(), SIGUSR1);
      while (handled_by == 0) ::usleep(100);
    }).join();
    EXPECT_NE(handled_by, worker);
    EXPECT_NE(handled_by, own_id());
  }
}

TEST(SignalThread, LeavesTheMaskAsItWas) {
  const bool before = blocked_here(SIGTERM);
  { const SignalThread signals; }
  EXPECT_EQ(blocked_here(SIGTERM), before);
}

TEST(SignalThreadDeathTest, ASignalWithoutAHandlerStillEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const SignalThread signals;
        ::kill(::getpid(), SIGTERM);
        ::sleep(20);
        ::_exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace mt
