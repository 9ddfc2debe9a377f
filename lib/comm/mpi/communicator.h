#pragma once
// The Communicator over MPI: checks arguments, numbers calls, starts operations.
//
// Code: comm/mpi/communicator.cc. Tests: tests/comm/.

#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/call.h"

namespace mt::comm::mpi {

// One rank's end of a group. `own` is the job of a world communicator, which finalises MPI when it goes; null: the
// group frees its MPI communicator. After an exception neither happens, since peers may be gone and messages in flight.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Job& job, MPI_Comm comm, std::string name, std::vector<int> world_ranks, std::unique_ptr<Job> own);
  ~MpiCommunicator() override;
  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  const CommOptions& options() const override { return group_.job->options; }

  Handle all_reduce(Stream& stream, View x, Reduce op) override;
  Handle all_gather(Stream& stream, View in, View out) override;
  Handle reduce_scatter(Stream& stream, View in, View out, Reduce op) override;
  Handle all_to_all(Stream& stream, View in, View out) override;
  Handle all_to_all_v(Stream& stream, View in, std::span<const std::int64_t> send_rows, View out,
                      std::span<const std::int64_t> recv_rows) override;
  Handle broadcast(Stream& stream, View x, int root) override;
  Handle send(Stream& stream, View x, int peer) override;
  Handle recv(Stream& stream, View x, int peer) override;
  Handle barrier(Stream& stream) override;
  void progress() override { group_.job->progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& world_ranks, const std::string& name) override;

 private:
  std::unique_ptr<Job> own_;
  Group group_;
  int exceptions_;
  std::int64_t number_ = 0;
};

}  // namespace mt::comm::mpi
