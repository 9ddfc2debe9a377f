#include "comm/mpi/exchange.h"

#include <algorithm>
#include <thread>

#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/status_page.h"

namespace mt::comm::mpi {

namespace {

constexpr std::uint32_t kFingerprints = 64;
constexpr const char* kKindNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                      "broadcast",  "barrier",    "send",           "recv"};

std::uint32_t fingerprint(const Call& call) {
  // all_to_all_v and messages may differ in size from rank to rank.
  if (call.kind == Kind::all_to_all || call.kind == Kind::send || call.kind == Kind::recv) return 0;
  std::uint64_t h = static_cast<std::uint64_t>(call.bytes) * 4 + static_cast<std::uint64_t>(call.reduce);
  h = h * 16 + static_cast<std::uint64_t>(call.dtype);
  h = (h + static_cast<std::uint64_t>(call.root)) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>(h >> 58) % kFingerprints;
}

}  // namespace

const char* kind_name(Kind kind) { return kKindNames[static_cast<int>(kind)]; }

int Tag::of_phase(int phase) const {
  // A message and its receipt are one kind on the wire, and their number counts per group on each side.
  const bool message = kind == Kind::send || kind == Kind::recv;
  const auto wire = static_cast<std::uint32_t>(message ? Kind::send : kind);
  const auto n = message ? 0u : static_cast<std::uint32_t>(number % 1024);
  return static_cast<int>(((n * 8 + wire) * kFingerprints + fingerprint) * 2 + static_cast<std::uint32_t>(phase));
}

void Exchange::add(MPI_Request request, Message message) {
  requests_.push_back(request);
  messages_.push_back(message);
  ++open_;
}

void Exchange::send(const Group& group, const std::byte* data, std::int64_t bytes, int peer, int tag) {
  const std::int64_t limit = group.job->options.max_chunk_bytes;
  for (std::int64_t at = 0; at == 0 || at < bytes; at += limit) {
    const std::int64_t n = std::min(limit, bytes - at);
    MPI_Request request;
    check(MPI_Isend(data + at, static_cast<int>(n), MPI_BYTE, peer, tag, group.comm, &request), "MPI_Isend");
    add(request, {peer, n, false});
  }
}

void Exchange::receive(const Group& group, std::byte* data, std::int64_t bytes, int peer, int tag) {
  const std::int64_t limit = group.job->options.max_chunk_bytes;
  for (std::int64_t at = 0; at == 0 || at < bytes; at += limit) {
    const std::int64_t n = std::min(limit, bytes - at);
    MPI_Request request;
    check(MPI_Irecv(data + at, static_cast<int>(n), MPI_BYTE, peer, tag, group.comm, &request), "MPI_Irecv");
    add(request, {peer, n, true});
  }
}

bool Exchange::test() {
  if (open_ == 0) return true;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int completed = 0;
  const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed, indices_.data(),
                                  statuses_.data());
  if (result == MPI_ERR_IN_STATUS || completed == MPI_UNDEFINED) {
    for (int i = 0; i < completed; ++i) check(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, "a message");
  }
  check(result, "MPI_Testsome");
  for (int i = 0; i < completed; ++i) {
    const Message& m = messages_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    if (!m.receiving) continue;
    int got = 0;
    check(MPI_Get_count(&statuses_[static_cast<std::size_t>(i)], MPI_BYTE, &got), "MPI_Get_count");
    if (got != m.bytes)
      throw Error(Code::comm, fmt::format("a message of {} bytes came where {} are expected", got, m.bytes),
                  fmt::format("from rank {} of the group", m.peer));
  }
  open_ -= completed;
  if (open_ > 0) return false;
  requests_.clear();
  messages_.clear();
  return true;
}

std::vector<int> Exchange::waiting_for() const {
  std::vector<int> ranks;
  for (const bool receiving : {true, false}) {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL && messages_[i].receiving == receiving) ranks.push_back(messages_[i].peer);
    if (!ranks.empty()) break;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Operation::Operation(const Group& group, const Call& call, std::int64_t number)
    : group_(group), call_(call), number_(number), tag_{number, call.kind, fingerprint(call)} {
  group_.job->in_flight.push_back(this);
  if (auto* status = group_.job->options.status) status->enter({*group_.name, kind_name(call_.kind), number_});
}

Operation::~Operation() { std::erase(group_.job->in_flight, this); }

bool Operation::test() {
  if (!done_) done_ = advance();
  return done_;
}

void Operation::wait() {
  if (test()) return;
  auto* status = group_.job->options.status;
  if (status) status->wait_in({*group_.name, kind_name(call_.kind), number_});
  wait_on_peers();
  if (status) status->wait_over();
}

void Operation::wait_on_peers() {
  const auto start = Clock::now();
  double next_look = 1;
  for (std::int64_t turns = 1; !test(); ++turns) {
    if (group_.job->in_flight.size() > 1) group_.job->progress();
    // Another rank may need this core; a busy wait would cost it a time slice.
    ::sched_yield();
    if (turns % 256 != 0) continue;
    if (auto* status = group_.job->options.status) {
      const auto peers = waiting_for();
      status->waits_for(peers.empty() ? -1 : (*group_.world_ranks)[static_cast<std::size_t>(peers.front())]);
    }
    const double seconds = seconds_since(start);
    if (seconds > next_look) {
      look_for_disagreement();
      next_look = seconds + 1;
    }
    if (seconds > group_.job->options.timeout_s) time_out(seconds);
    if (seconds > 0.002) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::string Operation::text() const {
  if (call_.kind == Kind::send || call_.kind == Kind::recv)
    return fmt::format("group {} {} of {} bytes, peer {}", *group_.name, kind_name(call_.kind), call_.bytes,
                       (*group_.world_ranks)[static_cast<std::size_t>(call_.root)]);
  return fmt::format("group {} {} number {} of {} bytes", *group_.name, kind_name(call_.kind), number_, call_.bytes);
}

std::string Operation::ranks_text(const std::vector<int>& group_ranks) const {
  std::string s = group_ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < group_ranks.size(); ++i)
    s += fmt::format("{}{}", i > 0 ? ", " : "", (*group_.world_ranks)[static_cast<std::size_t>(group_ranks[i])]);
  return s;
}

// A peer that is in an operation of the same number but another kind or size has sent us a message nobody receives.
void Operation::look_for_disagreement() const {
  if (call_.kind == Kind::send || call_.kind == Kind::recv) return;
  for (int peer : waiting_for()) {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(peer, MPI_ANY_TAG, group_.comm, &there, &status), "MPI_Iprobe");
    if (there == 0) continue;
    const auto theirs = static_cast<std::uint32_t>(status.MPI_TAG);
    const auto kind = static_cast<Kind>(theirs / 2 / kFingerprints % 8);
    const auto number = theirs / 2 / kFingerprints / 8;
    if (kind == Kind::send || number != static_cast<std::uint32_t>(number_ % 1024)) continue;
    if (theirs / 2 == static_cast<std::uint32_t>(tag(0)) / 2) continue;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const std::string how = kind == call_.kind ? "with another size, type or root" : kind_name(kind);
    throw Error(Code::comm,
                fmt::format("ranks disagree: {} calls {} (a message of {} bytes)", ranks_text({peer}), how, bytes),
                text(), "all ranks of a group must make the same calls in the same order");
  }
}

void Operation::time_out(double seconds) const {
  throw Error(Code::comm, fmt::format("no answer after {:.1f} s from {}", seconds, ranks_text(waiting_for())), text(),
              "look at those ranks; --distributed-timeout-minutes sets the limit");
}

}  // namespace mt::comm::mpi
