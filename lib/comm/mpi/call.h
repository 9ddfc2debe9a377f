#pragma once
// Calls into MPI, and what is shared by all communicators of this process.
//
// Code: comm/mpi/call.cc. Included only inside comm/mpi/.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <mpi.h>

#include "comm/communicator.h"

namespace mt::comm::mpi {

// Throw Error{comm} with MPI's own text unless `result` is MPI_SUCCESS.   what  "MPI_Isend"
void check(int result, const char* what);

class Operation;

// Memory for messages on their way to a sum; not zeroed.
struct Scratch {
  std::unique_ptr<std::byte[]> data;
  std::int64_t bytes = 0;
};

// One a process, owned by the world communicator.
struct Job {
  CommOptions options;
  std::vector<Operation*> in_flight;  // in the order they were started, over all groups
  std::vector<Scratch> scratch;       // free pieces: fresh memory for every sum would cost its page faults

  // Move everything; waiting for one operation moves all, or ranks could wait for each other in a circle.
  void progress();
  Scratch take_scratch(std::int64_t bytes);
  void give_back(Scratch scratch);
};

// A group as operations see it.
struct Group {
  Job* job = nullptr;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  const std::string* name = nullptr;
  const std::vector<int>* world_ranks = nullptr;
};

}  // namespace mt::comm::mpi
