#include <unistd.h>

#include "base/error.h"
#include "comm/world.h"

namespace mt::comm {

bool mpi_available() { return false; }

std::unique_ptr<Communicator> mpi_world(const CommOptions&) {
  throw Error(Code::comm, "this build has no MPI", "", "configure with MT_MPI=ON, or use --local-ranks");
}

void abort_job(int exit_status) { ::_exit(exit_status); }

}  // namespace mt::comm
