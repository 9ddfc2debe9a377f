// GoogleTest in process, or the same tests on every rank of an MPI job.

#include <cstdio>
#include <exception>
#include <memory>

#include <gtest/gtest.h>

#include "comm/ranks.h"

namespace mt::test {

Communicator*& mpi_world_of_this_process() {
  static Communicator* world = nullptr;
  return world;
}

}  // namespace mt::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!mt::comm::started_by_mpi() || testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  // A rank that throws leaves the others waiting: the job has to end.
  testing::GTEST_FLAG(catch_exceptions) = false;
  try {
    const auto world = mt::comm::mpi_world(mt::test::comm_options());
    mt::test::mpi_world_of_this_process() = world.get();
    int failed = RUN_ALL_TESTS();
    std::int32_t any = failed;
    mt::Stream stream;
    world->all_reduce(stream, mt::View(&any, mt::DType::i32, {1}), mt::Reduce::max).wait_host();
    if (failed) std::fprintf(stderr, "rank %d failed\n", world->rank());
    if (any) mt::comm::leave_job(*world, 1);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    mt::comm::abort_job(1);
  }
}
