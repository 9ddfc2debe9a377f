// The bytes that really leave this rank, counted at the door of MPI, against comm/volume.h.

#include <mpi.h>

#include "comm/ranks.h"
#include "comm/volume.h"

namespace {
// A C function has no other place to count.
std::int64_t bytes_sent = 0, largest = 0;
}  // namespace

// Takes the place of the library's own function, which stays reachable as PMPI_Isend.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  bytes_sent += count;
  largest = std::max<std::int64_t>(largest, count);
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}

namespace mt::test {
namespace {

class Messages : public OnRanks {
 protected:
  void SetUp() override {
    if (GetParam().name != "mpi") GTEST_SKIP() << "messages are MPI's: run by mpiexec";
  }
};

TEST_P(Messages, CarryThePredictedBytes) {
  run([&](Communicator& c) {
    Stream s;
    const int n = c.size();
    const auto sent = [&](auto call) {
      bytes_sent = 0;
      call().wait_host();
      return bytes_sent;
    };
    std::vector<float> x(static_cast<std::size_t>(70001 * n)), y(x.size());
    for (std::int64_t total : {1, 3, 512, 513, 1000, 70001}) {
      const View v(x.data(), DType::f32, {total});
      EXPECT_EQ(sent([&] { return c.all_reduce(s, v, Reduce::sum); }),
                comm::all_reduce_bytes_sent(total, 4, c.rank(), n))
          << total;
      const View all(x.data(), DType::f32, {total * n}), out(y.data(), DType::f32, {total * n});
      const std::int64_t parts = comm::parts_bytes_sent(4 * total * n, n);
      EXPECT_EQ(sent([&] { return c.reduce_scatter(s, all, out.rows(0, total), Reduce::sum); }), parts);
      EXPECT_EQ(sent([&] { return c.all_gather(s, v, out); }), parts);
      EXPECT_EQ(sent([&] { return c.all_to_all(s, all, out); }), parts);
      EXPECT_EQ(sent([&] { return c.broadcast(s, v, 0); }), c.rank() == 0 ? 4 * total * (n - 1) : 0);
    }
    EXPECT_EQ(sent([&] { return c.barrier(s); }), 0);
  });
}

TEST_P(Messages, AreNoLongerThanTheLimit) {
  run([&](Communicator& c) {
    Stream s;
    std::vector<float> x(5000);
    largest = 0;
    c.all_reduce(s, View(x.data(), DType::f32, {5000}), Reduce::sum).wait_host();
    c.broadcast(s, View(x.data(), DType::f32, {5000}), 0).wait_host();
    EXPECT_LE(largest, comm_options().max_chunk_bytes);
  });
}

INSTANTIATE_TEST_SUITE_P(Comm, Messages, testing::ValuesIn(backends()), backend_text);

}  // namespace
}  // namespace mt::test
