#include "comm/cuda/rank_order.h"

#include <algorithm>

#include "base/error.h"
#include "device/cuda/launch.h"

namespace mt::comm {

namespace {

constexpr unsigned kThreads = 256, kMostBlocks = 1024;

__device__ inline double wide(double x) { return x; }
__device__ inline float wide(float x) { return x; }
__device__ inline float wide(bf16 x) { return to_f32(x); }
__device__ inline float wide(f16 x) { return to_f32(x); }
__device__ inline void narrow(double x, double& to) { to = x; }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, bf16& to) { to = to_bf16(x); }
__device__ inline void narrow(float x, f16& to) { to = to_f16(x); }

template <class T>
__global__ void combine(RankOrder a) {
  const auto stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const T* own = reinterpret_cast<const T*>(a.own);
  T* out = reinterpret_cast<T*>(a.out);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += stride) {
    auto sum = wide(a.rank == 0 ? own[i] : reinterpret_cast<const T*>(a.received)[i]);
    for (int r = 1; r < a.ranks; ++r) {
      const auto x = wide(a.rank == r ? own[i] : reinterpret_cast<const T*>(a.received + r * a.stride)[i]);
      if (!a.max) sum = sum + x;
      else if (x > sum || x != x) sum = x;  // nothing compares above a NaN
    }
    narrow(sum, out[i]);
  }
}

template <class T>
void start(const Stream& stream, const RankOrder& a) {
  const std::int64_t blocks = std::min<std::int64_t>((a.count + kThreads - 1) / kThreads, kMostBlocks);
  cuda::launch(stream, combine<T>, {.x = static_cast<unsigned>(blocks), .threads = kThreads}, a);
}

}  // namespace

void reduce_in_rank_order(const Stream& stream, const RankOrder& a) {
  if (a.max) MT_CHECK(a.dtype == DType::f32, "no max over {}", dtype_name(a.dtype));
  switch (a.dtype) {
    case DType::f64: return start<double>(stream, a);
    case DType::f32: return start<float>(stream, a);
    case DType::bf16: return start<bf16>(stream, a);
    case DType::f16: return start<f16>(stream, a);
    default: break;
  }
  MT_CHECK(false, "no sum in rank order over {}", dtype_name(a.dtype));
}

}  // namespace mt::comm
