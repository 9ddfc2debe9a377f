#pragma once
// The collectives of a group as operations in flight.
//
// Code: comm/mpi/collective.cc, comm/mpi/reduction_work.cc (sums and maxima). Tests: tests/comm/.

#include <memory>
#include <span>

#include "comm/mpi/exchange.h"

namespace mt::comm::mpi {

using Work = std::unique_ptr<Handle::Work>;

Work all_gather(const Group& group, std::int64_t number, View in, View out);
// Bytes per peer, in rank order, next to each other.
struct Parts {
  std::byte* data;
  std::vector<std::int64_t> bytes;
};
Work all_to_all(const Group& group, std::int64_t number, const Parts& in, const Parts& out);
// cost  root sends bytes·(n−1)
Work broadcast(const Group& group, std::int64_t number, View x, int root);
Work barrier(const Group& group, std::int64_t number);
Work message(const Group& group, View x, int peer, bool sending);

// Scatter of shards in pieces that stay in the cache, sum in rank order, gather of results; comm/volume.h has the bytes.
//   memory  (n−1) × pieces in flight
Work all_reduce(const Group& group, std::int64_t number, View x, Reduce op);
Work reduce_scatter(const Group& group, std::int64_t number, View in, View out, Reduce op);

}  // namespace mt::comm::mpi
