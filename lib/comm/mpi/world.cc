#include "comm/world.h"

#include <unistd.h>

#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "comm/mpi/communicator.h"

namespace mt::comm {

namespace {

// A launcher of another MPI starts N worlds of one rank; each would train alone and overwrite the others.
void check_world_size(int size) {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const char* text = std::getenv(name);
    if (!text || std::atoi(text) == size) continue;
    throw Error(Code::comm, fmt::format("the MPI world has {} ranks, the launcher started {}", size, text), name,
                "mpiexec belongs to another MPI than this program; use its own, or --local-ranks");
  }
}

}  // namespace

bool mpi_available() { return true; }

std::unique_ptr<Communicator> mpi_world(const CommOptions& options) {
  // MPICH's own line about MPI_Abort says nothing that ours does not.
  ::setenv("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1", 0);
  int provided = 0;
  mpi::check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  mpi::check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  mpi::check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_FUNNELED) throw Error(Code::comm, "this MPI has no support for threads", "MPI_Init_thread");
  int size = 0;
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  check_world_size(size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto job = std::make_unique<mpi::Job>();
  job->options = options;
  auto& borrowed = *job;
  return std::make_unique<mpi::MpiCommunicator>(borrowed, MPI_COMM_WORLD, "world", std::move(ranks), std::move(job));
}

void abort_job(int exit_status) {
  drain_output();
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, exit_status);
  if (!initialized) ask_launcher_to_abort(exit_status);
  ::_exit(exit_status);
}

}  // namespace mt::comm
