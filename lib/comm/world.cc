#include "comm/world.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "comm/status_page.h"

namespace mt::comm {

bool started_by_mpi() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

int local_rank(const Communicator& world) {
  // Ranks that are threads of one started process are another world than the launcher's.
  if (started_by_mpi() && launched_rank().rank == world.rank())
    for (const char* name : {"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
      if (const char* text = std::getenv(name)) return std::max(0, std::atoi(text));
  return world.rank();
}

void drain_output() {
  std::fflush(stdout);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat kind {};
    if (::fstat(fd, &kind) != 0 || !S_ISFIFO(kind.st_mode)) continue;
    int left = 0;
    for (int ms = 0; ms < 2000 && ::ioctl(fd, FIONREAD, &left) == 0 && left > 0; ++ms) ::usleep(1000);
  }
  ::usleep(50000);  // read by the launcher's proxy, which passes it on
}

void ask_launcher_to_abort(int exit_status) {
  const char* text = std::getenv("PMI_FD");
  char* end = nullptr;
  const long fd = text ? std::strtol(text, &end, 10) : -1;
  struct stat kind {};
  if (fd < 3 || fd > 1 << 20 || *end != '\0' || ::fstat(static_cast<int>(fd), &kind) != 0 || !S_ISSOCK(kind.st_mode))
    return;
  ::dprintf(static_cast<int>(fd), "cmd=abort exitcode=%d\n", exit_status);
}

void leave_job(Communicator& world, int exit_status) {
  drain_output();
  Stream stream;
  world.barrier(stream).wait_host();
  // One abort is enough, and says its word once; the others wait to be ended by it, but not for ever.
  if (world.rank() != 0) ::sleep(5);
  abort_job(exit_status);
}

}  // namespace mt::comm
