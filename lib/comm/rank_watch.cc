#include "comm/rank_watch.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/world.h"

namespace mt::comm {

namespace {

constexpr double kTickS = 0.2;

class Watcher {
 public:
  Watcher(StatusPage& page, const WatchOptions& options, pid_t rank)
      : page_(page), options_(options), rank_(rank) {}

  // Status to exit with.
  int run(const sigset_t& signals) {
    while (true) {
      const timespec tick{0, static_cast<long>(kTickS * 1e9)};
      const int number = ::sigtimedwait(&signals, nullptr, &tick);
      if (number > 0 && number != SIGCHLD) ::kill(rank_, number);
      int status = 0;
      while (::waitpid(rank_, &status, WNOHANG | WUNTRACED) == rank_) {
        if (!WIFSTOPPED(status)) page_.forget_name();  // the rank may have died before the ranks did it together
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) return killed(WTERMSIG(status));
        if (WIFSTOPPED(status)) log::line(fmt::format("stopped by signal {} at {}", WSTOPSIG(status), where()));
      }
      if (number < 0 && silent()) return end_silent();
    }
  }

 private:
  std::string where() { return page_.mine().read().text(); }

  std::string report() {
    const std::string peers = page_.peers_text(page_.me().rank);
    return where() + (peers.empty() ? "" : "; " + peers);
  }

  int killed(int number) {
    // MPI's transport aborts a rank whose peer is gone; the peer's watcher knows more and speaks first.
    if (number == SIGABRT) ::usleep(500000);
    if (page_.claim_last_word()) {
      log::line(fmt::format("killed by signal {} ({}) at {}", number, ::strsignal(number), report()));
      drain_output();
    } else {
      ::sleep(2);  // our exit ends the job: let the one who speaks finish
    }
    ask_launcher_to_abort(128 + number);
    return 128 + number;
  }

  // Counted in ticks, so that a whole job put to sleep does not count its sleep.
  bool silent() {
    const std::uint64_t beats = page_.mine().read().beats;
    quiet_ticks_ = beats == beats_ ? quiet_ticks_ + 1 : 0;
    beats_ = beats;
    return quiet_ticks_ * kTickS >= options_.silent_after_s;
  }

  int end_silent() {
    if (page_.claim_last_word())
      log::line(fmt::format("silent for {:.0f} s at {} (look at that process; --distributed-timeout-minutes sets the "
                            "limit)", options_.silent_after_s, report()));
    drain_output();
    ::kill(rank_, SIGKILL);
    int status = 0;
    ::waitpid(rank_, &status, 0);
    return static_cast<int>(Code::comm);
  }

  StatusPage& page_;
  WatchOptions options_;
  pid_t rank_;
  std::uint64_t beats_ = 0;
  double quiet_ticks_ = 0;
};

}  // namespace

std::string rank_prefix(int rank) {
  char host[256] = "?";
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("{} rank {}", host, rank);
}

void watch_rank(StatusPage& page, const WatchOptions& options) {
  log::set_prefix(rank_prefix(page.me().rank));
  sigset_t signals, before;
  sigemptyset(&signals);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, number);
  // Blocked before the fork, so that none is lost in between.
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  std::fflush(nullptr);  // or both processes would write what is buffered
  const pid_t parent = ::getpid();
  const pid_t rank = ::fork();
  if (rank < 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    throw Error(Code::device, "cannot start the rank's process: " + errno_text(errno));
  }
  if (rank == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(128 + SIGKILL);  // the parent died before the line above
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  ::prctl(PR_SET_NAME, "mt-rank-watch");
  // _exit: buffers and exit handlers are the rank's.
  ::_exit(Watcher(page, options, rank).run(signals));
}

}  // namespace mt::comm
