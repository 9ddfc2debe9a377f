#pragma once
// Who answers for which part of a reduction, and what a collective sends: the arithmetic every backend shares.
//
//   n      ranks of the group      bytes  of the whole tensor (of one message for broadcast)
// Code: header only. Tests: tests/comm/volume_test.cc and tests/comm/mpi_bytes_test.cc, which counts real messages.

#include <cstdint>

namespace mt::comm {

// Elements [begin, end) of `total` that `rank` sums up; sizes differ by one at most.
struct Shard {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
constexpr Shard shard_of(std::int64_t total, int rank, int n) {
  // total·rank can pass 2^63 only beyond 2^43 elements at 2^20 ranks.
  return {total * rank / n, total * (rank + 1) / n};
}

// An all-reduce of at most so many bytes is one exchange of the whole tensor instead of two of shards: one round trip
// less, and every rank hears from every other.
inline constexpr std::int64_t kDirectBytes = 2048;

// Bytes `rank` sends in an all-reduce of `total` elements of `element_bytes`: 2·bytes·(n−1)/n where n divides `total`.
constexpr std::int64_t all_reduce_bytes_sent(std::int64_t total, std::int64_t element_bytes, int rank, int n) {
  const std::int64_t bytes = total * element_bytes;
  if (bytes <= kDirectBytes) return bytes * (n - 1);
  const std::int64_t mine = shard_of(total, rank, n).size() * element_bytes;
  return bytes - mine + mine * (n - 1);
}

// Bytes each rank sends when every rank holds or gets `bytes`/n: all-gather, reduce-scatter, all-to-all.
constexpr std::int64_t parts_bytes_sent(std::int64_t bytes, int n) { return bytes / n * (n - 1); }

}  // namespace mt::comm
