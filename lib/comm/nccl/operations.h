#pragma once
// Every collective as calls of NCCL on a link's stream, cut into pieces of at most `chunk` bytes to a peer.
//
// Code: comm/nccl/operations.cc. Tests: tests/comm/. All views are contiguous and on the link's device.

#include <span>

#include "comm/nccl/link.h"

namespace mt::comm::nccl {

// The first operation of each link, on all ranks: NCCL connects then, and waits for the peers at the other ends. So it is
// done for all of them at once, and no later operation waits.
void connect(std::span<Link* const> links);

void all_reduce(Link& link, View x, Reduce op, bool rank_order, std::int64_t chunk);
void reduce_scatter(Link& link, View in, View out, Reduce op, bool rank_order, std::int64_t chunk);
void all_gather(Link& link, View in, View out, std::int64_t chunk);
void broadcast(Link& link, View x, int root, std::int64_t chunk);
// Bytes for and of each peer, next to each other.
void all_to_all(Link& link, const std::byte* in, std::span<const std::int64_t> sent, std::byte* out,
                std::span<const std::int64_t> received, std::int64_t chunk);
void send(Link& link, View x, int peer, std::int64_t chunk);
void receive(Link& link, View x, int peer, std::int64_t chunk);

}  // namespace mt::comm::nccl
