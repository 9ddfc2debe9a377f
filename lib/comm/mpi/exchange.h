#pragma once
// Messages in flight between this rank and its peers, and one collective operation made of them.
//
// Collectives are sums of point-to-point messages, so that the order of additions is ours, several can be in flight on
// one group, and every pending message names the rank it waits for. A message's tag says operation number, kind and a
// fingerprint of the call's arguments: ranks that disagree never match, and the wait finds out by probing.
// Code: comm/mpi/exchange.cc. Tests: tests/comm/.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/mpi/call.h"

namespace mt::comm::mpi {

enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, barrier, send, recv };
const char* kind_name(Kind kind);

// 20 bits, the tag space every MPI in use has: number 10, kind 3, fingerprint 6, phase 1.
struct Tag {
  std::int64_t number = 0;
  Kind kind = Kind::barrier;
  std::uint32_t fingerprint = 0;
  int of_phase(int phase) const;
};

// A batch of messages that completes as a whole.
class Exchange {
 public:
  // Messages longer than max_chunk_bytes travel in pieces.   needs  both sides the same limit
  void send(const Group& group, const std::byte* data, std::int64_t bytes, int peer, int tag);
  void receive(const Group& group, std::byte* data, std::int64_t bytes, int peer, int tag);
  // True when all are complete, also when there are none.
  //   fails  Error{comm}: MPI failed, or a message of another size came
  bool test();
  // Group ranks whose messages have not come; those not taken, if all came.
  std::vector<int> waiting_for() const;

 private:
  struct Message {
    int peer;
    std::int64_t bytes;
    bool receiving;
  };
  void add(MPI_Request request, Message message);
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  int open_ = 0;
};

// What a call wants; for errors and for the fingerprint.
struct Call {
  Kind kind = Kind::barrier;
  DType dtype = DType::u8;
  Reduce reduce = Reduce::sum;
  std::int64_t bytes = 0;
  int root = 0;  // broadcast: root; send, recv: peer
};

class Operation : public Handle::Work {
 public:
  Operation(const Group& group, const Call& call, std::int64_t number);
  ~Operation() override;
  bool test() final;
  void wait() final;

 protected:
  virtual bool advance() = 0;  // true when complete
  virtual std::vector<int> waiting_for() const = 0;
  int tag(int phase) const { return tag_.of_phase(phase); }
  const Group group_;
  const Call call_;

 private:
  void wait_on_peers();
  std::string text() const;
  std::string ranks_text(const std::vector<int>& group_ranks) const;
  void look_for_disagreement() const;
  [[noreturn]] void time_out(double seconds) const;
  std::int64_t number_;
  Tag tag_;
  bool done_ = false;
};

// All messages at once: all-gather, all-to-all, broadcast, barrier, send, recv.
class PlainOperation final : public Operation {
 public:
  using Operation::Operation;
  Exchange& exchange() { return exchange_; }
  int message_tag() const { return tag(0); }
  const Group& group() const { return group_; }

 private:
  bool advance() override { return exchange_.test(); }
  std::vector<int> waiting_for() const override { return exchange_.waiting_for(); }
  Exchange exchange_;
};

}  // namespace mt::comm::mpi
