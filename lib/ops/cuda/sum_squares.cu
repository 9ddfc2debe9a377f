// The square of an f32 is m²·2^(2(e − 1) − 298), m below 2^24: an integer far up a row of 640 bits. A warp takes a
// chunk of 32·kEach elements, adds the squares near the chunk's largest in 128-bit registers, and the few far below one
// by one. Integers alone: any order gives the same bits.
#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.h"

namespace mt::ops::cuda {

namespace {

using Wide = unsigned long long;

constexpr int kGroups = 4;       // of eight elements a lane takes at a time
constexpr unsigned kReach = 20;  // exponents below the largest that the registers hold: 48 + 2·20 + 10 bits
constexpr Count kChunk = 32 * kGroups * kGroup;
constexpr unsigned kSquareThreads = 128;
constexpr unsigned kMostSums = 1024;  // blocks, each with its digits in scratch

struct Bits {
  unsigned e;
  Wide square;
  __device__ explicit Bits(float x) {
    const unsigned u = std::bit_cast<unsigned>(x), biased = (u >> 23) & 255u;
    const Wide m = (u & 0x7fffffu) | (biased != 0 ? 0x800000u : 0u);
    e = biased == 0 ? 1 : biased;
    square = m * m;
  }
};

// digits += (high, low)·2^bit, a digit of 32 bits in each of 64.
__device__ inline void add_to_digits(Wide low, Wide high, unsigned bit, Wide* digits) {
  const unsigned digit = bit / 32, shift = bit % 32;
  const Wide part[4] = {low & 0xffffffffu, low >> 32, high & 0xffffffffu, high >> 32};
  Wide carry = 0;
  for (unsigned i = 0; i < 5; ++i) {
    const Wide here = i < 4 ? part[i] << shift : 0;
    const Wide sum = (here & 0xffffffffu) + carry;
    carry = here >> 32;
    if (sum != 0) atomicAdd(digits + digit + i, sum);
  }
}

__device__ inline void add_wide(Wide& low, Wide& high, Wide more_low, Wide more_high) {
  low += more_low;
  high += more_high + (low < more_low ? 1 : 0);
}

__device__ void add_chunk(const Elements& x, Count n, Count begin, Wide* digits) {
  const unsigned lane = threadIdx.x % 32;
  float v[kGroups][kGroup];
  unsigned most = 1, odd = 0;
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    const Count at = begin + (j * 32 + static_cast<Count>(lane)) * kGroup, rest = n - at;
    const int count = rest < 0 ? 0 : rest < kGroup ? static_cast<int>(rest) : kGroup;
    load(x, 0, count > 0 ? at : 0, count, v[j]);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const unsigned e = (std::bit_cast<unsigned>(v[j][i]) >> 23) & 255u;
      if (e == 255) {
        ++odd;
        v[j][i] = 0;
      } else if (e > most) {
        most = e;
      }
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const unsigned other = __shfl_xor_sync(kLaneMask, most, step);
    most = other > most ? other : most;
    odd += __shfl_xor_sync(kLaneMask, odd, step);
  }
  const unsigned base = most > kReach ? most - kReach : 1;
  Wide low = 0, high = 0;
#pragma unroll
  for (int j = 0; j < kGroups; ++j)
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const Bits b(v[j][i]);
      if (b.e >= base) {
        const unsigned shift = 2 * (b.e - base);
        add_wide(low, high, b.square << shift, shift == 0 ? 0 : b.square >> (64 - shift));
      } else if (b.square != 0) {
        add_to_digits(b.square, 0, 2 * (b.e - 1), digits);
      }
    }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const Wide other_low = __shfl_xor_sync(kLaneMask, low, step), other_high = __shfl_xor_sync(kLaneMask, high, step);
    add_wide(low, high, other_low, other_high);
  }
  if (lane != 0) return;
  add_to_digits(low, high, 2 * (base - 1), digits);
  if (odd != 0) atomicAdd(digits + kSumSquaresDigits, static_cast<Wide>(odd));
}

__global__ void square_sums(Elements x, Count n, Wide* sums) {
  auto* digits = shared_mem<Wide>();
  if (threadIdx.x < kSumSquaresSize) digits[threadIdx.x] = 0;
  __syncthreads();
  const Count warp = (static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const Count warps = static_cast<Count>(gridDim.x) * blockDim.x / 32;
  for (Count begin = warp * kChunk; begin < n; begin += warps * kChunk) add_chunk(x, n, begin, digits);
  __syncthreads();
  if (threadIdx.x < kSumSquaresSize) sums[blockIdx.x * kSumSquaresSize + threadIdx.x] = digits[threadIdx.x];
}

// Digits below 2^32 come of any sum: the one form there is.
__global__ void join_sums(const Wide* sums, unsigned blocks, Wide* bins) {
  auto* total = shared_mem<Wide>();
  if (threadIdx.x < kSumSquaresSize) {
    Wide sum = 0;
    for (unsigned b = 0; b < blocks; ++b) sum += sums[b * kSumSquaresSize + threadIdx.x];
    total[threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  Wide carry = 0;
  for (int d = 0; d < kSumSquaresDigits; ++d) {
    const Wide sum = total[d] + carry;
    const bool last = d + 1 == kSumSquaresDigits;
    bins[d] += last ? sum : sum & 0xffffffffu;
    carry = sum >> 32;
  }
  bins[kSumSquaresDigits] += total[kSumSquaresDigits];
}

__global__ void invert_norm(const std::int64_t* bins, double least, float* out) {
  const double norm = sqrt(sum_of_digits(bins));
  *out = static_cast<float>(1 / (norm < least ? least : norm));  // NaN stays
}

}  // namespace

void inverse_norm(const Stream& stream, const InverseNormArgs& g) {
  launch(stream, invert_norm, {}, static_cast<const std::int64_t*>(g.bins.data), g.least,
         static_cast<float*>(g.out.data));
}

void sum_squares(const Stream& stream, const SumSquaresArgs& g) {
  const Count n = g.x.size(), wanted = ceil_div(n, kChunk * (kSquareThreads / 32));
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(wanted < kMostSums ? wanted : kMostSums);
  auto* sums = reinterpret_cast<Wide*>(mt::cuda::scratch(stream, std::size_t{blocks} * kSumSquaresSize * sizeof(Wide)));
  launch(stream, square_sums, {.x = blocks, .threads = kSquareThreads, .shared_bytes = kSumSquaresSize * sizeof(Wide)},
         flat(g.x), n, sums);
  launch(stream, join_sums, {.threads = 32, .shared_bytes = kSumSquaresSize * sizeof(Wide)}, sums, blocks,
         static_cast<Wide*>(g.bins.data));
}

}  // namespace mt::ops::cuda
