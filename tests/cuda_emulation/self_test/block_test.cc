// Threads, barriers and warps of the emulation, and what it says of code that uses them wrongly.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/launch.h"
#include "pinned.h"

namespace mt::cuda {
namespace {

using test::Pinned;
constexpr Device kDevice = test::kEmulatedDevice;

__global__ void note_indices(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * blockDim.x + threadIdx.x] = block * 1000 + threadIdx.x;
}

TEST(Emulation, EveryThreadOfEveryBlockRunsOnceWithItsIndices) {
  Pinned<unsigned> out(2 * 3 * 4 * 40);
  Stream s(kDevice);
  launch(s, note_indices, {.x = 2, .y = 3, .z = 4, .threads = 40}, out.data());
  s.synchronize();
  for (unsigned b = 0; b < 24; ++b)
    for (unsigned t = 0; t < 40; ++t) ASSERT_EQ(out[b * 40 + t], b * 1000 + t);
}

// The block's sum by halves.
__global__ void sum_block(const int* in, int* out) {
  int* shared = shared_mem<int>();
  shared[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = shared[0];
}

TEST(Emulation, BarriersOrderSharedMemory) {
  Pinned<int> in(1024), out(4);
  std::iota(in.data(), in.data() + 1024, 0);
  Stream s(kDevice);
  launch(s, sum_block, {.x = 4, .threads = 256, .shared_bytes = 1024}, in.data(), out.data());
  s.synchronize();
  for (int b = 0; b < 4; ++b) EXPECT_EQ(out[static_cast<std::size_t>(b)], 256 * (256 * b) + 255 * 128);
}

__global__ void sum_block_without_barrier(const unsigned* in, unsigned* out) {
  unsigned* shared = shared_mem<unsigned>();  // sums of what nobody wrote may wrap
  shared[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0)
    for (unsigned i = 0; i < blockDim.x; ++i) out[0] += shared[i];
}

TEST(Emulation, AMissingBarrierGivesAnotherSum) {
  Pinned<unsigned> in(64), out(1);
  std::fill_n(in.data(), 64, 1u);
  Stream s(kDevice);
  launch(s, sum_block_without_barrier, {.threads = 64, .shared_bytes = 256}, in.data(), out.data());
  s.synchronize();
  EXPECT_NE(out[0], 64u);
}

// Threads that have ended do not count at a barrier.
__global__ void some_end_early(int* out) {
  if (threadIdx.x % 2 == 1) return;
  int* shared = shared_mem<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  const int came = __syncthreads_count(threadIdx.x % 4 == 0);
  out[threadIdx.x] = shared[(threadIdx.x + 2) % blockDim.x] * 1000 + came;
}

TEST(Emulation, BarriersWaitForThreadsThatLiveAndCountVotes) {
  Pinned<int> out(64);
  Stream s(kDevice);
  launch(s, some_end_early, {.threads = 64, .shared_bytes = 256}, out.data());
  s.synchronize();
  for (std::size_t i = 0; i < 64; i += 2) EXPECT_EQ(out[i], static_cast<int>((i + 2) % 64) * 1000 + 16);
}

__global__ void warp_operations(int* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int* mine = out + threadIdx.x * 8;
  mine[0] = __shfl_xor_sync(~0u, lane, 5);
  mine[1] = __shfl_down_sync(~0u, lane, 3);
  mine[2] = __shfl_up_sync(~0u, lane, 3);
  mine[3] = __shfl_sync(~0u, lane, 7, 16);
  mine[4] = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
  mine[5] = __reduce_add_sync(~0u, lane);
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  mine[6] = __shfl_xor_sync(half, lane, 1);
  mine[7] = __any_sync(half, lane == 20) * 2 + __all_sync(half, lane < 16);
}

TEST(Emulation, WarpsShuffleVoteAndReduceAsDocumented) {
  Pinned<int> out(64 * 8);
  Stream s(kDevice);
  launch(s, warp_operations, {.threads = 64}, out.data());
  s.synchronize();
  int thirds = 0;
  for (int i = 0; i < 32; i += 3) thirds |= static_cast<int>(1u << i);
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32;
    const int* mine = out.data() + t * 8;
    EXPECT_EQ(mine[0], lane ^ 5);
    EXPECT_EQ(mine[1], lane + 3 < 32 ? lane + 3 : lane);
    EXPECT_EQ(mine[2], lane >= 3 ? lane - 3 : lane);
    EXPECT_EQ(mine[3], lane / 16 * 16 + 7);
    EXPECT_EQ(mine[4], thirds);
    EXPECT_EQ(mine[5], 31 * 16);
    EXPECT_EQ(mine[6], lane ^ 1);
    EXPECT_EQ(mine[7], lane < 16 ? 1 : 2);
  }
}

__global__ void count_up(int* counter, unsigned* largest) {
  atomicAdd(counter, 1);
  atomicMax(largest, threadIdx.x);
}

TEST(Emulation, AtomicsCountEveryThread) {
  Pinned<int> n(1);
  Pinned<unsigned> largest(1);
  Stream s(kDevice);
  launch(s, count_up, {.x = 5, .threads = 100}, n.data(), largest.data());
  s.synchronize();
  EXPECT_EQ(n[0], 500);
  EXPECT_EQ(largest[0], 99u);
}

// ---- mistakes -------------------------------------------------------------------------------------------------------
template <class... P, class... A>
void run(void (*kernel)(P...), const Grid& grid, A... args) {
  Stream s(kDevice);
  launch(s, kernel, grid, args...);
  s.synchronize();
}

__global__ void one_lane_ends() {
  if (threadIdx.x == 3) return;
  __shfl_xor_sync(~0u, 1, 1);
}
__global__ void half_at_a_barrier() {
  if (threadIdx.x < 32) __syncthreads();
  else __syncwarp();
  __syncwarp(threadIdx.x < 32 ? ~0u : 1u << threadIdx.x % 32 | 1u);
}
__global__ void two_barriers() {
  if (threadIdx.x < 32) __syncthreads();
  else
    __syncthreads();
}
__global__ void lanes_differ() {
  if (threadIdx.x % 2 == 0) __shfl_xor_sync(~0u, 1, 1);
  else __ballot_sync(~0u, 1);
}

TEST(EmulationDeathTest, LanesThatEndedOrDifferAreNamed) {
  EXPECT_DEATH(run(one_lane_ends, {.threads = 32}),
               "threads 0-2 at __shfl_xor_sync .block_test.cc:.*thread 3 ended; threads 4-31 at __shfl");
  EXPECT_DEATH(run(lanes_differ, {.threads = 32}),
               "lanes of a warp differ in what they exchange in the kernel of block_test");
}

TEST(EmulationDeathTest, ABarrierThatNotAllReachIsNamed) {
  EXPECT_DEATH(run(half_at_a_barrier, {.threads = 64}), "threads 0-31 at __syncthreads .block_test.cc");
  EXPECT_DEATH(run(two_barriers, {.threads = 64}), "threads of a block are at different barriers");
}

__global__ void past_the_end(int* data, int at) { data[at] = 1; }
__global__ void read_at(const int* data, std::ptrdiff_t at, int* out) { *out = data[at]; }
__global__ void past_shared() { shared_mem<int>()[threadIdx.x * 4] = 1; }

TEST(EmulationDeathTest, AccessesBeyondAnAllocationAreNamed) {
  const Buffer data(kDevice, 4096);
  auto* p = reinterpret_cast<int*>(data.data());
  EXPECT_DEATH(run(past_the_end, {}, p, 1024),
               "kernel of block_test.cc:[0-9]+, block .0, 0, 0. thread 0 touches memory of cuda:0 0 bytes past the end of "
               "an allocation of 4096");
  const Buffer odd(kDevice, 100);
  EXPECT_DEATH(run(past_the_end, {}, reinterpret_cast<int*>(odd.data()), 26),
               "kernel of block_test.cc:[0-9]+ wrote 4 bytes past the end of an allocation of 100");
  const Pinned<int> pinned(64), out(1);
  EXPECT_DEATH(run(read_at, {}, pinned.data(), std::ptrdiff_t{64}, out.data()), "touches pinned memory 0 bytes past the end");
  EXPECT_DEATH(run(past_shared, {.threads = 128, .shared_bytes = 512}),
               "thread [0-9]+ touches memory outside the block's shared memory");
}

TEST(EmulationDeathTest, TheHostAndOtherDevicesMayNotTouchDeviceMemory) {
  const Buffer data(kDevice, 4096);
  EXPECT_DEATH(data.data()[8] = std::byte{1}, "the host touches memory of cuda:0, byte 8 of an allocation of 4096");
  const Buffer other({DeviceKind::cuda, 1}, 64);
  EXPECT_DEATH(run(past_the_end, {}, reinterpret_cast<int*>(other.data()), 0), "cuda:1, which is another device's");
}

TEST(EmulationDeathTest, AnArgumentThatPointsToHostMemoryIsNamed) {
  const auto value = std::make_unique<int>(3);
  const Pinned<int> out(1);
  EXPECT_DEATH(run(read_at, {}, value.get(), std::ptrdiff_t{0}, out.data()),
               "the kernel of block_test.cc:[0-9]+ is given an address of the host's, at byte 0 of an argument");
}

TEST(EmulationDeathTest, PinnedMemoryGivenBackMayNotBeTouched) {
  int* gone = nullptr;
  {
    const Pinned<int> data(64);
    gone = data.data();
  }
  EXPECT_DEATH(*gone = 1, "the host touches pinned memory that was given back");
}

TEST(Emulation, ALaunchThatHardwareRefusesIsAnError) {
  Stream s(kDevice);
  EXPECT_THROW(launch(s, two_barriers, {.threads = 1025}), Error);
  EXPECT_THROW(launch(s, two_barriers, {.threads = 32, .shared_bytes = 300 * 1024}), Error);
}

}  // namespace
}  // namespace mt::cuda
