// The twins of ops/cuda/ptx.h against plain loops.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/launch.h"
#include "ops/cuda/ptx.h"
#include "pinned.h"

namespace mt::ops::cuda {
namespace {

using mt::cuda::launch;
using mt::cuda::shared_mem;

using test::Pinned;
constexpr Device kDevice = test::kEmulatedDevice;

// C[16, 8] += A[16, 16]·B[16, 8], all row-major; A by load_matrices, B by the transposing one, C as the layout says.
template <class T>
__global__ void multiply(const T* a, const T* b, float* c) {
  T* shared = shared_mem<T>();
  for (unsigned i = threadIdx.x; i < 256; i += 32) shared[i] = a[i];
  for (unsigned i = threadIdx.x; i < 256; i += 32) shared[256 + i] = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : T{};
  __syncthreads();
  const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
  std::uint32_t fa[4], fb[4];
  load_matrices(fa, shared + lane % 16 * 16 + lane / 16 * 8);
  load_matrices_transposed(fb, shared + 256 + lane % 16 * 16 + lane / 16 * 8);
  float fc[4];
  for (unsigned i = 0; i < 4; ++i) fc[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  mma<T>(fc, fa, fb[0], fb[1]);
  for (unsigned i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = fc[i];
}

template <class T>
void expect_product() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Pinned<T> a(256), b(128);
  Pinned<float> c(128);
  std::vector<double> want(128);
  for (std::size_t i = 0; i < 256; ++i) a[i] = from_f32<T>(normal(random));
  for (std::size_t i = 0; i < 128; ++i) b[i] = from_f32<T>(normal(random));
  for (std::size_t i = 0; i < 128; ++i) {
    c[i] = normal(random);
    want[i] = static_cast<double>(c[i]);
    for (std::size_t k = 0; k < 16; ++k)
      want[i] += static_cast<double>(to_f32(a[i / 8 * 16 + k])) * static_cast<double>(to_f32(b[k * 8 + i % 8]));
  }
  Stream s(kDevice);
  launch(s, multiply<T>, {.threads = 32, .shared_bytes = 1024}, a.data(), b.data(), c.data());
  s.synchronize();
  for (std::size_t i = 0; i < 128; ++i) EXPECT_NEAR(static_cast<double>(c[i]), want[i], 1e-5) << i;
}

TEST(Ptx, MmaOfBf16IsTheProductOfItsFragments) { expect_product<bf16>(); }
TEST(Ptx, MmaOfF16IsTheProductOfItsFragments) { expect_product<f16>(); }

__global__ void read_matrices(std::uint16_t* out, int transposed) {
  auto* shared = shared_mem<std::uint16_t>();
  for (unsigned i = threadIdx.x; i < 4 * 64; i += 32) shared[i] = static_cast<std::uint16_t>(i);
  __syncthreads();
  std::uint32_t r[4];
  // Matrix m is rows 8m..8m+7 of eight elements.
  if (transposed != 0) load_matrices_transposed(r, shared + threadIdx.x * 8);
  else load_matrices(r, shared + threadIdx.x * 8);
  std::memcpy(out + threadIdx.x * 8, r, 16);
}

TEST(Ptx, EveryLaneGetsItsPairOfEachOfFourMatrices) {
  for (int transposed : {0, 1}) {
    Pinned<std::uint16_t> out(256);
    Stream s(kDevice);
    launch(s, read_matrices, {.threads = 32, .shared_bytes = 512}, out.data(), transposed);
    s.synchronize();
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned m = 0; m < 4; ++m)
        for (unsigned i = 0; i < 2; ++i) {
          const unsigned g = lane / 4, pair = 2 * (lane % 4) + i, row = transposed ? pair : g,
                         column = transposed ? g : pair;
          EXPECT_EQ(out[lane * 8 + 2 * m + i], m * 64 + row * 8 + column) << lane;
        }
  }
}

// What came: 1 the number copied, 2 zeros, 0 neither.
__global__ void copy_later(const std::uint32_t* from, int* out, int commits, int waits) {
  auto* shared = shared_mem<std::uint32_t>() + threadIdx.x * 16;
  for (unsigned i = 0; i < 16; ++i) shared[i] = 99;
  for (unsigned i = 0; i < 4; ++i) {
    copy_async(shared + 4 * i, from + threadIdx.x * 16 + 4 * i, i != 3);
    if (commits != 0) copy_async_commit();
  }
  if (waits != 0) copy_async_wait<0>();
  for (unsigned i = 0; i < 4; ++i)
    out[threadIdx.x * 4 + i] = shared[4 * i] == from[threadIdx.x * 16 + 4 * i] ? 1 : shared[4 * i] == 0 ? 2 : 0;
  copy_async_commit();
  copy_async_wait<0>();
}

TEST(Ptx, AsynchronousCopiesAreThereAfterAWaitForCommittedGroupsAndNotBefore) {
  Pinned<std::uint32_t> from(32 * 16);
  for (std::size_t i = 0; i < 512; ++i) from[i] = static_cast<std::uint32_t>(i + 1000);
  for (int commits : {0, 1})
    for (int waits : {0, 1}) {
      Pinned<int> out(128);
      Stream s(kDevice);
      launch(s, copy_later, {.threads = 32, .shared_bytes = 32 * 64}, from.data(), out.data(), commits, waits);
      s.synchronize();
      int missing = 0, wrong = 0;
      for (std::size_t i = 0; i < 128; ++i) {
        missing += out[i] == 0;
        wrong += out[i] != 0 && out[i] != (i % 4 == 3 ? 2 : 1);
      }
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(missing == 0, commits == 1 && waits == 1) << commits << waits;
    }
}

__global__ void convert(const float* in, std::uint32_t* half, float* back) {
  half[threadIdx.x] = pack<f16>(in[2 * threadIdx.x], in[2 * threadIdx.x + 1]);
  unpack<f16>(half[threadIdx.x], back[2 * threadIdx.x], back[2 * threadIdx.x + 1]);
}

TEST(Ptx, PacksThePairsLowHalfFirst) {
  Pinned<float> in(64), back(64);
  Pinned<std::uint32_t> half(32);
  for (std::size_t i = 0; i < 64; ++i) in[i] = static_cast<float>(i) / 4;
  Stream s(kDevice);
  launch(s, convert, {.threads = 32}, in.data(), half.data(), back.data());
  s.synchronize();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(back[i], in[i]);
  EXPECT_EQ(half[1] & 0xffffu, to_f16(0.5f).bits);
}

__global__ void read_off_border(const float* from, float* to) {
  float word[4];
  load16(from + 1, word);
  to[0] = word[0];
}

TEST(PtxDeathTest, AccessesOffTheirBorderAreRefused) {
  EXPECT_DEATH(
      {
        Pinned<float> x(64);
        Stream s(kDevice);
        launch(s, read_off_border, {.threads = 1}, x.data(), x.data() + 32);
        s.synchronize();
      },
      "off its border");
}

}  // namespace
}  // namespace mt::ops::cuda
