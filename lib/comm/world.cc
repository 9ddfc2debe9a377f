#include "comm/world.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace mt::comm {

bool started_by_mpi() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

void leave_job(Communicator& world, int exit_status) {
  std::fflush(stdout);
  Stream stream;
  world.barrier(stream).wait_host();
  // One abort is enough, and says its word once; the others wait to be ended by it, but not for ever.
  if (world.rank() != 0) ::sleep(5);
  abort_job(exit_status);
}

}  // namespace mt::comm
