#pragma once
// Start of a job: the communicator over all ranks, from whichever backend started them.
//
// Code: comm/world.cc, comm/threads.cc, comm/mpi/world.cc (comm/mpi_absent.cc where MPI is off).
// Tests: tests/comm/world_test.cc.

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace mt::comm {

// One rank, no peers.
std::unique_ptr<Communicator> solo_world(const CommOptions& options = {});
// A group of this rank alone, for every backend: copies, no messages.
std::unique_ptr<Communicator> solo_group(const std::string& name, int world_rank);

// More threads than this are a slip of the finger, not a job for one process.
inline constexpr int kMaxLocalRanks = 256;

// Run `body` on `num_ranks` threads of this process, each with its own world communicator, and join them.
//   fails  Error{usage} for fewer than 1 or more than kMaxLocalRanks; the first exception by rank order of occurrence is rethrown after all ranks left (the others' operations
//          fail with Error{comm} "rank R failed")
void run_local_ranks(int num_ranks, const CommOptions& options,
                     const std::function<void(std::unique_ptr<Communicator>)>& body);

// True if this build has MPI and this process was started by an MPI launcher (PMI_RANK, PMIX_RANK, OMPI_COMM_WORLD_RANK).
bool mpi_available();
bool started_by_mpi();
// MPI_Init_thread (FUNNELED) and the world. Finalised when the returned communicator is destroyed.
//   fails  Error{comm}: no MPI in this build; a world whose size differs from PMI_SIZE or OMPI_COMM_WORLD_SIZE
std::unique_ptr<Communicator> mpi_world(const CommOptions& options = {});

// This rank's place among the ranks of its host, as the launcher says it (MPI_LOCALRANKID, OMPI_COMM_WORLD_LOCAL_RANK,
// SLURM_LOCALID); ranks that are threads, and those without a launcher, are all here.
int local_rank(const Communicator& world);

// Wait until a launcher has read what this rank wrote to its pipes (2 s at most): what is in a pipe when a rank aborts is
// lost with it (seen in a third of all aborts).
void drain_output();
// Ask the launcher to end the job, without MPI: PMI-1's abort on the descriptor PMI_FD names. Launchers take a plain exit
// before MPI_Init for the end of a program that never wanted MPI, and let the other ranks wait in theirs.
//   needs  MPI not started in this process, or the process that had started it is gone
void ask_launcher_to_abort(int exit_status);
// End the whole job with this exit status, from any rank, after drain_output(): MPI_Abort, or ask_launcher_to_abort()
// and _exit where MPI is not started.
[[noreturn]] void abort_job(int exit_status);
// The same, agreed on: every rank of the world calls it with equal status. What was said on stdout is out before.
[[noreturn]] void leave_job(Communicator& world, int exit_status);

// Every collective and message of `inner`, counted: operation, group, calls, bytes sent by this rank by the formulas of
// comm/communicator.h. make_group of a recording communicator records into the same log.
struct TrafficRow {
  std::string group, operation;
  std::int64_t calls = 0, bytes_sent = 0;
};
class TrafficLog {
 public:
  void add(const std::string& group, const std::string& operation, std::int64_t bytes_sent);
  std::vector<TrafficRow> rows() const;
  void clear() { rows_.clear(); }

 private:
  std::vector<TrafficRow> rows_;
};
std::unique_ptr<Communicator> recording(std::unique_ptr<Communicator> inner, TrafficLog& log);

}  // namespace mt::comm
