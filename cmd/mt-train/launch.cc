#include "launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "comm/rank_watch.h"
#include "comm/world.h"
#include "options/launcher_environment.h"
#include "train/trainer.h"

namespace mt {

namespace {

// MT_TEST_THROW=RANK:STEP lets a drill break one rank in the middle of a step.
void throw_if_asked(int rank, std::int64_t step) {
  const char* text = std::getenv("MT_TEST_THROW");
  int r = 0;
  long long s = 0;
  if (text && std::sscanf(text, "%d:%lld", &r, &s) == 2 && r == rank && s == step)
    throw std::runtime_error("thrown by MT_TEST_THROW");
}

TrainerHooks hooks_of(comm::StatusSlot& slot, int rank) {
  TrainerHooks hooks;
  hooks.on_phase = [&slot, rank](const char* phase, std::int64_t iteration) {
    slot.at(iteration, phase);
    if (std::string_view(phase) == "forward-backward") throw_if_asked(rank, iteration);
  };
  return hooks;
}

// Run `body`; what it throws comes out as an Error that says where in the run it happened.
template <class Body>
auto located(comm::StatusSlot& slot, const std::string& rank, Body body) {
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

// Ranks that were asked for, against those there are.
void check_ranks(const Launch& launch, int there) {
  if (launch.world_size != 0 && launch.world_size != there)
    throw Error(Code::config, fmt::format("--world-size {} with {} rank{}", launch.world_size, there, there == 1 ? "" : "s"),
                "", fmt::format("start {} ranks, or leave out --world-size", launch.world_size));
  if (launch.script_ranks != 0 && launch.script_ranks != there && comm::launched_rank().rank == 0)
    log::warn("the script of --args-file starts {} ranks, here there {} {}", launch.script_ranks, there == 1 ? "is" : "are",
              there);
}

int run_threads(const TrainingOptions& given, int num_ranks, const CommOptions& comm) {
  const TrainingOptions options = complete_options(given, num_ranks);
  std::deque<comm::StatusSlot> slots(static_cast<std::size_t>(num_ranks));
  int status = 0;
  comm::run_local_ranks(num_ranks, comm, [&](std::unique_ptr<Communicator> world) {
    const int rank = world->rank();
    auto& slot = slots[static_cast<std::size_t>(rank)];
    const int mine =
        located(slot, comm::rank_prefix(rank), [&] { return train(*world, options, hooks_of(slot, rank)); });
    if (rank == 0) status = mine;
  });
  return status;
}

int run_mpi(const TrainingOptions& given, const Launch& launch, CommOptions comm) {
  const auto page = comm::StatusPage::open(comm::launched_rank());
  comm::watch_rank(*page, {comm.timeout_s});
  comm.status = &page->mine();
  // The watcher of a silent rank knows more than the ranks that wait for it, so it speaks first.
  comm.timeout_s += 2;
  try {
    return located(page->mine(), "", [&] {
      const auto world = comm::mpi_world(comm);
      Stream stream;
      world->barrier(stream).wait_host();
      page->forget_name();
      check_ranks(launch, world->size());
      const int status =
          train(*world, complete_options(given, world->size()), hooks_of(page->mine(), world->rank()));
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

int run_ranks(const TrainingOptions& given, const Launch& launch) {
  CommOptions comm;
  comm.timeout_s = given.distributed_timeout_min * 60;
  if (launch.local_ranks != 0 && comm::launched_rank().world > 1)
    throw Error(Code::usage, "--local-ranks under an MPI launcher would train once a process", "--local-ranks",
                "leave out --local-ranks, or the launcher");
  options::check_launcher_environment(launch.local_ranks, std::getenv);
  if (!comm::started_by_mpi()) check_ranks(launch, std::max(1, launch.local_ranks));
  if (launch.local_ranks != 0) return run_threads(given, launch.local_ranks, comm);
  if (comm::started_by_mpi()) return run_mpi(given, launch, comm);
  comm::StatusSlot slot;
  const auto world = comm::solo_world(comm);
  return located(slot, "", [&] { return train(*world, complete_options(given, 1), hooks_of(slot, 0)); });
}

}  // namespace mt
