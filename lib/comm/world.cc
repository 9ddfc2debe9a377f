#include "comm/world.h"

#include <unistd.h>

#include <cstdlib>

#include "base/error.h"

namespace mt::comm {

bool started_by_mpi() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace mt::comm
