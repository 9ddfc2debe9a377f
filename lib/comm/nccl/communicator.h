#pragma once
// The Communicator over NCCL: checks arguments, chooses between NCCL and the host's communicator, starts operations.
//
// Code: comm/nccl/communicator.cc, comm/nccl/operations.cc (how each is made of NCCL's calls). Tests: tests/comm/.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/graph_operations.h"
#include "comm/nccl.h"
#include "comm/nccl/domain.h"

namespace mt::comm::nccl {

// What all groups of this rank share.
struct Shared {
  NcclOptions options;
  Domain domain;
};

// NCCL communicators for messages with one peer, a direction each.
struct Pair {
  Link *out = nullptr, *in = nullptr;
  std::int64_t sent = 0, received = 0;
};

class NcclCommunicator final : public Communicator, public GraphCapture {
 public:
  // Collective.   owned  the host's group; null: `host` is the world's and outlives this
  NcclCommunicator(std::shared_ptr<Shared> shared, Communicator& host, std::unique_ptr<Communicator> owned);
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  const CommOptions& options() const override { return host_.options(); }

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
  void progress() override;
  std::unique_ptr<Communicator> make_group(const std::vector<int>& world_ranks, const std::string& name) override;

  bool can_capture() const override { return true; }
  void begin_capture() override { domain().begin_capture(); }
  std::unique_ptr<GraphOperations> end_capture() override { return domain().end_capture(); }

  // A collective of this group is queued, or launched with a graph: it has its number, and peers see that this rank came.
  What enter(const char* operation, std::int64_t bytes);

 private:
  using Issue = std::function<void(Link&)>;
  bool is_here(const View& v) const;  // in memory of the device
  Handle collective(Stream& stream, const char* operation, std::size_t bytes, const Issue& issue);
  Handle start(Link& link, Stream& stream, What what, const Issue& issue);
  Handle message(Stream& stream, View x, int peer, bool sending);
  void before_host(Stream& stream);
  void meet_ring();
  Pair* pair_with(int peer);  // null: through the host
  Domain& domain() const { return shared_->domain; }

  std::shared_ptr<Shared> shared_;
  Communicator& host_;
  std::unique_ptr<Communicator> owned_;
  Stream host_stream_;  // for what goes through the host
  std::unique_ptr<Communicator> staged_;
  Link* link_ = nullptr;
  std::map<int, Pair> pairs_;
  std::string key_;  // of the group on the board
  std::int64_t number_ = 0;
};

}  // namespace mt::comm::nccl
