#pragma once
// How many ranks and who starts them: --local-ranks N, an MPI launcher, or one rank alone.
//
// Code: header only. Tests: tests/cli/.

#include <functional>

#include "base/options.h"
#include "comm/world.h"

namespace mt::options {

struct WorldFlags {
  int local_ranks = 0;
  double timeout_min = 10;

  void add(OptionTable& table) {
    table.group("Launch");
    table.add("local-ranks", local_ranks, "N", "run N ranks as threads of this process, without MPI");
    table.add("distributed-timeout-minutes", timeout_min, "X", "an operation that takes longer is an error", "minutes");
  }

  // Ranks there will be, before any of them starts; 0 when only the launcher knows.
  int size() const { return local_ranks != 0 ? local_ranks : comm::started_by_mpi() ? 0 : 1; }

  // Run `body` on every rank; the exit status is rank 0's.
  int run(const std::function<int(Communicator&)>& body) const {
    CommOptions options;
    options.timeout_s = timeout_min * 60;
    if (local_ranks != 0) {
      int status = 0;
      comm::run_local_ranks(local_ranks, options, [&](std::unique_ptr<Communicator> world) {
        const int mine = body(*world);
        if (world->rank() == 0) status = mine;
      });
      return status;
    }
    const auto world = comm::started_by_mpi() ? comm::mpi_world(options) : comm::solo_world(options);
    return body(*world);
  }
};

}  // namespace mt::options
