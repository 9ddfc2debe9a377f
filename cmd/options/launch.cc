#include "options/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/signal_thread.h"
#include "comm/rank_watch.h"
#include "options/launcher_environment.h"

namespace mt::options {

namespace {

// Run `body`; what it throws comes out as an Error that says where in the run it happened.
int located(comm::StatusSlot& slot, const std::string& rank, const std::function<int()>& body) {
  const auto place = [&](const std::string& where) {
    std::string text = where;
    for (const std::string& part : {rank, slot.read().text()})
      if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
    return text;
  };
  try {
    return body();
  } catch (const Error& e) {
    // Wrong options are wrong on all ranks and have no place in the run.
    if (e.code() == Code::usage || e.code() == Code::config) throw;
    throw Error(e.code(), e.message(), place(e.where()), e.hint());
  } catch (const std::bad_alloc&) {
    throw Error(Code::device, "out of memory", place(""));
  } catch (const std::exception& e) {
    throw Error(Code::internal, std::string("internal error: ") + e.what(), place(""));
  }
}

int run_threads(int num_ranks, const CommOptions& comm, const RankBody& body) {
  std::deque<comm::StatusSlot> slots(static_cast<std::size_t>(std::max(0, num_ranks)));
  int status = 0;
  comm::run_local_ranks(num_ranks, comm, [&](std::unique_ptr<Communicator> world) {
    const int rank = world->rank();
    auto& slot = slots[static_cast<std::size_t>(rank)];
    const int mine = located(slot, comm::rank_prefix(rank), [&] { return body(*world, slot); });
    if (rank == 0) status = mine;
  });
  return status;
}

int run_mpi(CommOptions comm, const RankBody& body) {
  const auto page = comm::StatusPage::open(comm::launched_rank());
  comm::watch_rank(*page, {comm.timeout_s});
  const SignalThread signals;
  comm.status = &page->mine();
  comm.page = page.get();
  // The watcher of a silent rank knows more than the ranks that wait for it, so it speaks first.
  comm.timeout_s += 2;
  try {
    return located(page->mine(), "", [&] {
      const auto world = comm::mpi_world(comm);
      Stream stream;
      world->barrier(stream).wait_host();
      page->forget_name();
      const int status = body(*world, page->mine());
      if (status == 0) return 0;
      page->claim_last_word();
      comm::leave_job(*world, status);
    });
  } catch (const Error& e) {
    // A lost connection is a consequence: whoever watches the lost rank knows more and speaks first.
    if (e.code() == Code::comm) ::usleep(500000);
    if (page->claim_last_word()) throw;
    // Another rank of this host tells what happened and ends the job; what we saw follows from it.
    log::detail("{}", e.what());
    ::sleep(5);
    comm::abort_job(static_cast<int>(e.code()));
  }
}

}  // namespace

void Launch::add_local_ranks(OptionTable& t) {
  t.add("local-ranks", local_ranks, "N", "run N ranks as threads of this process, without MPI")
      .between(1, comm::kMaxLocalRanks)
      .no_default();
}

void Launch::add_timeout(OptionTable& t) {
  t.add("distributed-timeout-minutes", timeout_min, "X", "an operation that takes longer is an error", "minutes")
      .above(0);
}

void Launch::check() const {
  if (local_ranks != 0 && comm::launched_rank().world > 1)
    throw Error(Code::usage, "--local-ranks under an MPI launcher would do all the work once a process",
                "--local-ranks", "leave out --local-ranks, or the launcher");
  check_launcher_environment(local_ranks, std::getenv);
}

int Launch::run(const RankBody& body) const {
  check();
  CommOptions comm;
  comm.timeout_s = timeout_min * 60;
  if (local_ranks == 0 && comm::started_by_mpi()) return run_mpi(comm, body);
  const SignalThread signals;
  if (local_ranks != 0) return run_threads(local_ranks, comm, body);
  comm::StatusSlot slot;
  const auto world = comm::solo_world(comm);
  return located(slot, "", [&] { return body(*world, slot); });
}

void speak_as_one(cli::Tool& tool) {
  tool.speaks = comm::launched_rank().rank == 0;
  tool.on_fatal = comm::abort_job;
}

}  // namespace mt::options
