#pragma once
// Calls into MPI, and what is shared by all communicators of this process.
//
// Code: comm/mpi/call.cc. Included only inside comm/mpi/.

#include <cstdint>
#include <vector>

#include <mpi.h>

#include "comm/communicator.h"

namespace mt::comm::mpi {

// Throw Error{comm} with MPI's own text unless `result` is MPI_SUCCESS.   what  "MPI_Isend"
void check(int result, const char* what);

class Operation;

// One a process, owned by the world communicator.
struct Job {
  CommOptions options;
  std::vector<Operation*> in_flight;  // in the order they were started, over all groups

  // Move everything; waiting for one operation moves all, or ranks could wait for each other in a circle.
  void progress();
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
