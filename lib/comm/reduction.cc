#include "comm/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace mt::comm {

namespace {

constexpr std::int64_t kBlock = 2048;  // elements kept in the f32 (f64, i64) accumulator, in the first-level cache

template <class T>
auto widen(T v) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
    return to_f32(v);
  else
    return v;
}

template <class T, class A>
T narrow(A a) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(a);
  else if constexpr (std::is_same_v<T, f16>)
    return to_f16(a);
  else
    return a;
}

template <class T>
void sum(std::span<const std::byte* const> sources, std::byte* out, std::int64_t n) {
  using A = decltype(widen(T{}));
  A acc[kBlock];
  T* dst = reinterpret_cast<T*>(out);
  for (std::int64_t at = 0; at < n; at += kBlock) {
    const std::int64_t len = std::min(kBlock, n - at);
    for (std::size_t r = 0; r < sources.size(); ++r) {
      const T* src = reinterpret_cast<const T*>(sources[r]) + at;
      if (r == 0)
        for (std::int64_t i = 0; i < len; ++i) acc[i] = widen(src[i]);
      else
        for (std::int64_t i = 0; i < len; ++i) acc[i] = acc[i] + widen(src[i]);
    }
    for (std::int64_t i = 0; i < len; ++i) dst[at + i] = narrow<T>(acc[i]);
  }
}

template <class T>
void max(std::span<const std::byte* const> sources, std::byte* out, std::int64_t n) {
  T* dst = reinterpret_cast<T*>(out);
  for (std::int64_t i = 0; i < n; ++i) {
    T best = reinterpret_cast<const T*>(sources[0])[i];
    for (std::size_t r = 1; r < sources.size(); ++r) {
      const T v = reinterpret_cast<const T*>(sources[r])[i];
      if (v > best || v != v) best = v;  // a NaN replaces anything, and nothing compares above it
    }
    dst[i] = best;
  }
}

}  // namespace

void reduce_local(DType dtype, Reduce op, std::span<const std::byte* const> sources, std::byte* out, std::int64_t n) {
  if (op == Reduce::sum) {
    switch (dtype) {
      case DType::f64: return sum<double>(sources, out, n);
      case DType::f32: return sum<float>(sources, out, n);
      case DType::bf16: return sum<bf16>(sources, out, n);
      case DType::f16: return sum<f16>(sources, out, n);
      case DType::i64: return sum<std::int64_t>(sources, out, n);
      case DType::i32: return sum<std::int32_t>(sources, out, n);
      default: break;
    }
  } else {
    switch (dtype) {
      case DType::f32: return max<float>(sources, out, n);
      case DType::i64: return max<std::int64_t>(sources, out, n);
      case DType::i32: return max<std::int32_t>(sources, out, n);
      default: break;
    }
  }
  MT_CHECK(false, "no {} over {}", op == Reduce::sum ? "sum" : "max", dtype_name(dtype));
}

}  // namespace mt::comm
