#pragma once
// Element types and the exact conversions between them.
//
// Every conversion from f32 rounds to nearest, ties to even; NaN stays NaN; bf16 and f16 overflow to infinity;
// e4m3 (OCP "fn": no infinity, largest 448) and e5m2 saturate to their largest finite value.
// The scalar functions are MT_HD: written once, compiled for host and device.
// Code: header only, but for names (base/dtype.cc). Tests: tests/base/dtype_test.cc (all 2^16 patterns, all 2^8).

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#if defined(__CUDACC__)
#define MT_HD __host__ __device__
#else
#define MT_HD
#endif

namespace mt {

enum class DType : std::uint8_t { f64, f32, bf16, f16, e4m3, e5m2, i64, i32, i16, u16, i8, u8 };

// Bits per element; all are whole bytes today, sizes are in bits so that 4-bit types fit later.
constexpr int bits_of(DType d) {
  switch (d) {
    case DType::f64: case DType::i64: return 64;
    case DType::f32: case DType::i32: return 32;
    case DType::bf16: case DType::f16: case DType::i16: case DType::u16: return 16;
    default: return 8;
  }
}
constexpr std::int64_t bytes_of(DType d, std::int64_t count) { return count * bits_of(d) / 8; }

// "f32", "bf16", ... as in manifests and --json; safetensors spells them in capitals (ckpt does that).
std::string_view dtype_name(DType d);
std::optional<DType> parse_dtype(std::string_view name);

// ---- bf16: the high half of an f32 -------------------------------------------------------------------------
struct bf16 {
  std::uint16_t bits;
};
MT_HD inline float to_f32(bf16 v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16); }
MT_HD inline bf16 to_bf16(float f) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// ---- f16: IEEE binary16 -------------------------------------------------------------------------------------
struct f16 {
  std::uint16_t bits;
};
MT_HD inline float to_f32(f16 v) {
  const std::uint32_t sign = (v.bits & 0x8000u) << 16, exp = (v.bits >> 10) & 0x1fu, man = v.bits & 0x3ffu;
  if (exp == 31) return std::bit_cast<float>(sign | 0x7f800000u | (man << 13));
  if (exp != 0) return std::bit_cast<float>(sign | ((exp + 112u) << 23) | (man << 13));
  const float small = static_cast<float>(man) * 0x1p-24f;  // exact: man < 2^10
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(small) | sign);
}
MT_HD inline f16 to_f16(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (a >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds to 65536 or more
  if (a < 0x38800000u) {  // below 2^-14: add 0.5, whose ulp is 2^-24, and let the FPU round
    const float r = std::bit_cast<float>(a) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(r) - 0x3f000000u))};
  }
  const std::uint32_t r = a + 0xfffu + ((a >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((r - 0x38000000u) >> 13))};
}

// ---- fp8: e4m3 (fn) and e5m2 --------------------------------------------------------------------------------
struct e4m3 {
  std::uint8_t bits;
};
struct e5m2 {
  std::uint8_t bits;
};
MT_HD inline float to_f32(e4m3 v) {
  const std::uint32_t sign = (v.bits & 0x80u) << 24, a = v.bits & 0x7fu;
  if (a == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (a >= 8) return std::bit_cast<float>(sign | ((a << 20) + (120u << 23)));
  const float small = static_cast<float>(a) * 0x1p-9f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(small) | sign);
}
MT_HD inline float to_f32(e5m2 v) { return to_f32(f16{static_cast<std::uint16_t>(v.bits << 8)}); }
MT_HD inline e4m3 to_e4m3(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<std::uint8_t>(sign | 0x7fu)};
  if (a >= 0x43e00000u) return {static_cast<std::uint8_t>(sign | 0x7eu)};  // 448 and more, infinity too
  if (a < 0x3c800000u) {  // below 2^-6: add 2^14, whose ulp is 2^-9
    const float r = std::bit_cast<float>(a) + 0x1p14f;
    return {static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(r) - 0x46800000u))};
  }
  const std::uint32_t r = a + 0x7ffffu + ((a >> 20) & 1u);
  return {static_cast<std::uint8_t>(sign | ((r - (120u << 23)) >> 20))};
}
MT_HD inline e5m2 to_e5m2(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<std::uint8_t>(sign | 0x7eu)};
  if (a >= 0x47600000u) return {static_cast<std::uint8_t>(sign | 0x7bu)};  // 57344 and more, infinity too
  if (a < 0x38800000u) {  // below 2^-14: add 2^7, whose ulp is 2^-16
    const float r = std::bit_cast<float>(a) + 0x1p7f;
    return {static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(r) - 0x43000000u))};
  }
  const std::uint32_t r = a + 0xfffffu + ((a >> 21) & 1u);
  return {static_cast<std::uint8_t>(sign | ((r - (112u << 23)) >> 21))};
}

MT_HD inline float to_f32(float f) { return f; }

// Convert to T by name, for templates: from_f32<bf16>(x).
template <class T> MT_HD inline T from_f32(float f);
template <> MT_HD inline float from_f32<float>(float f) { return f; }
template <> MT_HD inline bf16 from_f32<bf16>(float f) { return to_bf16(f); }
template <> MT_HD inline f16 from_f32<f16>(float f) { return to_f16(f); }
template <> MT_HD inline e4m3 from_f32<e4m3>(float f) { return to_e4m3(f); }
template <> MT_HD inline e5m2 from_f32<e5m2>(float f) { return to_e5m2(f); }

template <class T> struct dtype_of_t;
template <> struct dtype_of_t<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of_t<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of_t<bf16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of_t<f16> { static constexpr DType value = DType::f16; };
template <> struct dtype_of_t<e4m3> { static constexpr DType value = DType::e4m3; };
template <> struct dtype_of_t<e5m2> { static constexpr DType value = DType::e5m2; };
template <> struct dtype_of_t<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of_t<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of_t<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct dtype_of_t<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct dtype_of_t<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of_t<std::uint8_t> { static constexpr DType value = DType::u8; };
template <class T> inline constexpr DType dtype_of = dtype_of_t<T>::value;

}  // namespace mt
